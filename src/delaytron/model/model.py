"""`dt.Model`: the object that an application talks to."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

from delaytron.checks import check_path, shown
from delaytron.files.atomic import replace_file
from delaytron.journal.ids import check_id
from delaytron.journal.records import AtRisk
from delaytron.learners import DEFAULT_LEARNER
from delaytron.model.answering import SAID, answer, cancel
from delaytron.model.classes import Name
from delaytron.model.deciding import decide, decide_many
from delaytron.model.explaining import Explanation, explain, look
from delaytron.model.keeper import Keeper
from delaytron.model.making import read_recipe
from delaytron.model.opening import open_keeper, reopen_keeper
from delaytron.model.snapshots import digest
from delaytron.model.stats import OpenDecision, Stats, open_decisions, stats_of
from delaytron.records import Decision

if TYPE_CHECKING:
    from delaytron.model.export import Exported


class Model:
    """Decides now, learns whenever the answer comes, and forgets nothing.

    Any thread may use it. With a journal, what a call returned is on disk; other processes answer by `dt.Journal`, and
    the same call with the same file goes on where it was, whatever happened.

    Parameters
    ----------
    classes : list of str or int
        Among what to choose.
    learner : str
        A name of `dt.LEARNERS`; by default the one that needs no tuning. Its parameters can be given by name.
    features : "hashed", int, or list of str
        Dicts of anything; vectors of n numbers; or dicts of numbers with these names.
    bits : int
        Hashed features have 2**bits places.
    ngrams : int
        Of free text, phrases of up to so many words count.
    journal : path, optional
        An SQLite file that keeps every decision and every answer. Without, all is in memory, and `save` keeps it.
    durability : {"full", "batched"}
        Return when all is on disk; or before, and let a loss of power cost the last 50 ms at most.
    expire_after : int, str or timedelta, optional
        Wait for an answer for so many decisions, or for a time such as "6h".
    on_expiry : {"drop", "wrong"}
        Then forget the decision; or count it as wrong, and correct that if an answer comes after all.
    seed : int, optional
        Fixes the exploration; by default nobody knows it before.

    Examples
    --------
    >>> router = Model(classes=["small", "medium", "large"], seed=7)
    >>> decision = router.decide({"prompt": "Translate this", "tenant": "a", "tokens": 512}, id="req-17")
    >>> decision.id, decision.label in ["small", "medium", "large"]
    ('req-17', True)
    >>> router.feedback("req-17", reward=0.7)
    'accepted'
    """

    __slots__ = ("__weakref__", "_keeper")
    _keeper: Keeper

    def __init__(
        self,
        classes: Iterable[Name],
        *,
        learner: str = DEFAULT_LEARNER,
        features: Any = "hashed",
        bits: int = 18,
        ngrams: int = 1,
        journal: str | Path | None = None,
        durability: str = "full",
        expire_after: Any = None,
        on_expiry: str = "drop",
        seed: int | None = None,
        **parameters: Any,
    ) -> None:
        shape = {"features": features, "bits": bits, "ngrams": ngrams}
        waiting = {"expire_after": expire_after, "on_expiry": on_expiry}
        recipe = read_recipe(classes, learner, shape, waiting, seed, parameters)
        self._use(open_keeper(recipe, journal, durability))

    @classmethod
    def open(cls, journal: str | Path, *, durability: str = "full") -> Self:
        """Open a journal without saying what it is for: it knows."""
        return cls._of(reopen_keeper(journal, durability))

    @classmethod
    def _of(cls, keeper: Keeper) -> Self:
        model = object.__new__(cls)
        model._use(keeper)
        return model

    def _use(self, keeper: Keeper) -> None:
        object.__setattr__(self, "_keeper", keeper)
        keeper.warm_up()

    def decide(self, x: Any, *, id: str | None = None, allowed: Iterable[Name] | None = None) -> Decision[str, Name]:
        """Choose a class for `x`.

        Parameters
        ----------
        x : dict, or what else `features` says
            What is known when it is decided.
        id : str, optional
            By which `feedback` will name the decision; by default 32 random digits. No id can be used twice.
        allowed : list of classes, optional
            Choose among these only; by default among all that are not retired.
        """
        return self._keeper.run(lambda now: decide(self._keeper, now, x, id, allowed))

    def decide_many(
        self, xs: Iterable[Any], *, ids: Iterable[str] | None = None, allowed: Iterable[Name] | None = None
    ) -> list[Decision[str, Name]]:
        """Choose a class for each of many, as if one after another; all of them or, after an error, none."""
        return decide_many(self._keeper, xs, ids, allowed)

    def feedback(
        self, id: str, correct: bool | None = None, *, label: Name | None = None, reward: float | None = None
    ) -> str:
        """Give the answer to a decision: whether it was right, what would have been right, or a reward from 0 to 1.

        Returns "accepted"; "duplicate" when the same answer was known already; "expired" or "cancelled" when nobody
        waits for it any more. Nothing is learned from the last three; what came first after the expiry is recorded.
        """
        checked = check_id(id)
        became = self._keeper.run(lambda now: answer(self._keeper, now, checked, (correct, label, reward)))
        return SAID.get(became, became)

    def cancel(self, id: str) -> str:
        """Want no answer to a decision: it teaches nothing. Returns "cancelled", or "duplicate" if it was already."""
        checked = check_id(id)
        return self._keeper.run(lambda now: cancel(self._keeper, now, checked))

    def predict(self, x: Any) -> Name:
        """Return the class that looks best; explores nothing and changes nothing."""
        return look(self._keeper, x, None).label

    def probabilities(self, x: Any, *, allowed: Iterable[Name] | None = None) -> dict[Name, float]:
        """Return with which probability each class would be chosen now; explores nothing and changes nothing."""
        return look(self._keeper, x, allowed).probabilities

    def explain(self, x: Any) -> Explanation:
        """Return why a class looks best: what each feature adds to the score of each class."""
        return explain(self._keeper, x)

    def add_class(self, name: Name) -> None:
        """Add a class, or let a retired one come back; decisions may be open."""
        self._keeper.run(lambda now: self._keeper.add_class(name, now))

    def retire_class(self, name: Name) -> None:
        """Let a class not be chosen any more; answers to decisions for it are taken still."""
        self._keeper.run(lambda now: self._keeper.retire_class(name, now))

    @property
    def classes(self) -> list[Name]:
        """The classes that may be chosen."""
        return self._keeper.core.classes.active

    def open_decisions(self) -> list[OpenDecision]:
        """Return the decisions that wait for an answer, the oldest first."""
        return open_decisions(self._keeper)

    def stats(self) -> Stats:
        """Return counts of decisions and answers, in all and by class."""
        return stats_of(self._keeper)

    def digest(self) -> str:
        """Return a SHA-256 of all that was learned and is waited for: equal models have equal ones."""
        return self._keeper.run(lambda _: digest(self._keeper.core, self._keeper.recipe))

    @property
    def at_risk(self) -> AtRisk | None:
        """What a crash may cost of what was acknowledged: so many seconds and facts; None without a journal, all."""
        return getattr(self._keeper.store, "at_risk", None)

    def save(self, path: str | Path) -> None:
        """Write the model as it is to one file without a journal; `dt.load` reads it."""
        replace_file(check_path("path", path), self._keeper.run(lambda _: self._keeper.pack_with_ids()))

    def export_onnx(self, path: str | Path, *, exact: bool = True) -> None:
        """Write `predict` as an ONNX graph, for vectors or a list of named features; see `Learner.export_onnx`."""
        from delaytron.model.onnx_file import export  # noqa: PLC0415 - seldom needed

        export(self._keeper, path, exact)

    def export_log(self, path: str | Path) -> "Exported":
        """Write the decisions of the journal, with what came of them, as a Parquet file for `dt.logs.read_parquet`."""
        from delaytron.model.export import export_own  # noqa: PLC0415 - seldom needed

        return export_own(self._keeper.store, path)

    def close(self) -> None:
        """Close the journal; it can be opened again."""
        self._keeper.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a Model is fixed once it is made, {name} too; make a new one with {name}={shown(value)}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Model is fixed once it is made, {name} too")

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            "a Model cannot be copied or pickled, since ids are issued once only; use save(path) and dt.load(path), "
            "and dt.Journal(path) to give feedback from another process"
        )

    def __repr__(self) -> str:
        asked = self._keeper.recipe.asked
        return f"Model({self.classes}, learner={asked['learner']!r}, open={len(self._keeper.core.open)})"

    def _repr_html_(self) -> str:
        from delaytron.model.notebook import show  # noqa: PLC0415 - for notebooks only

        return show(self._keeper)

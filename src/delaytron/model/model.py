"""`dt.Model`: the object that an application calls; `dt.load`."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

from delaytron.checks import check_path
from delaytron.errors import shown
from delaytron.files.atomic import replace_file
from delaytron.files.tensors import read_tensors
from delaytron.journal.ids import check_id
from delaytron.journal.store import AtRisk
from delaytron.learners import DEFAULT_LEARNER, files
from delaytron.model.classes import Name
from delaytron.model.engine import Engine, load_engine, open_engine, reopen_engine
from delaytron.model.inspection import (
    DecisionStatus,
    Explanation,
    OpenDecision,
    Stats,
    decision_status,
    explain,
    look,
    open_decisions,
    stats_of,
)
from delaytron.model.recipe import read_recipe
from delaytron.model.snapshots import FAMILY, digest
from delaytron.records import Decision

if TYPE_CHECKING:
    from delaytron.logs import Log
    from delaytron.model.export import Exported
    from delaytron.model.log_import import Learned


class Model:
    """Makes decisions now, and learns from their answers whenever these come.

    Any thread may use it. With a journal, the effect of a call is on disk when it returns; other processes answer
    by `dt.Journal`, and after a restart or a crash the same constructor call continues from the file.

    Parameters
    ----------
    classes : list of str or int
        The classes to choose from.
    learner : str
        A name of `dt.LEARNERS`; by default one that needs no tuning. Its parameters can be given by name.
    features : "hashed", int, or list of str
        Dicts of numbers, strings and lists of strings, also nested; vectors of n numbers; or dicts of numbers with
        these names.
    bits : int
        Hashed features are rows of 2**bits numbers.
    ngrams : int
        The longest phrases of free text that count, in words.
    journal : path, optional
        An SQLite file with every decision and every answer. Without one, everything is in memory; see `save`.
    durability : {"full", "batched"}
        Return when everything is on disk; or before, so that a crash or a power loss costs at most the last 50 ms.
    expire_after : int, str or timedelta, optional
        How long to wait for an answer: a number of decisions, or a time such as "6h".
    on_expiry : {"drop", "wrong"}
        Forget an expired decision; or count it as wrong, and correct that if an answer comes after all.
    correct_within : int, str or timedelta, optional
        How long after its expiry a decision that counted as wrong can be corrected; its features are kept until then.
        By default ten times `expire_after`; 0 allows no corrections.
    seed : int, optional
        Random seed of the exploration; drawn from the operating system by default.

    Examples
    --------
    >>> router = Model(classes=["small", "medium", "large"], seed=7)
    >>> decision = router.decide({"prompt": "Translate this", "tenant": "a", "tokens": 512}, id="req-17")
    >>> decision.id, decision.label in ["small", "medium", "large"]
    ('req-17', True)
    >>> router.feedback("req-17", reward=0.7)
    'accepted'
    """

    __slots__ = ("__weakref__", "_engine")
    _engine: Engine

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
        correct_within: Any = None,
        seed: int | None = None,
        **parameters: Any,
    ) -> None:
        shape = {"features": features, "bits": bits, "ngrams": ngrams}
        waiting = {"expire_after": expire_after, "on_expiry": on_expiry, "correct_within": correct_within}
        recipe = read_recipe(classes, learner, shape, waiting, seed, parameters)
        self._use(open_engine(recipe, journal, durability))

    @classmethod
    def open(cls, journal: str | Path, *, durability: str = "full") -> Self:
        """Open the model of an existing journal, by the configuration in it.

        Raises InvalidInput if there is no journal, or another process owns it, JournalError if it is damaged.
        """
        return cls._of(reopen_engine(journal, durability))

    @classmethod
    def _of(cls, engine: Engine) -> Self:
        model = object.__new__(cls)
        model._use(engine)
        return model

    def _use(self, engine: Engine) -> None:
        object.__setattr__(self, "_engine", engine)
        engine.state.learner.compile()

    def decide(self, x: Any, *, id: str | None = None, allowed: Iterable[Name] | None = None) -> Decision[str, Name]:
        """Choose a class for `x`.

        Parameters
        ----------
        x : dict, or as `features` says
            The features of the decision.
        id : str, optional
            The id of the decision, for `feedback`; by default 32 hexadecimal digits, which begin with the time. A call
            with the same id and the same input is a retry, and returns the stored decision.
        allowed : list of classes, optional
            Choose among these only; by default among all that are not retired.

        Raises
        ------
        InvalidInput
            If the model cannot take the features, the id or the classes.
        ConflictingDecision
            If the id was issued for other input.
        JournalError
            If the decision could not be written; then it was not made.
        """
        return self._engine.run(lambda now: self._engine.decide(now, x, id, allowed))

    def decide_many(
        self, xs: Iterable[Any], *, ids: Iterable[str] | None = None, allowed: Iterable[Name] | None = None
    ) -> list[Decision[str, Name]]:
        """Choose a class for each of `xs`: the same decisions as by single calls. After an error none is made."""
        return self._engine.decide_many(xs, ids, allowed)

    def feedback(
        self, id: str, correct: bool | None = None, *, label: Name | None = None, reward: float | None = None
    ) -> str:
        """Give the answer to a decision: whether it was right, what would have been right, or a reward from 0 to 1.

        Returns "accepted"; "duplicate" if the same answer was given before; "corrected" after an expiry that counted as
        wrong; "late" after one that was dropped or can no longer be corrected, and "cancelled" after a cancellation:
        these two teach nothing. Raises UnknownDecision if the id was never issued, ConflictingFeedback if the decision
        was answered differently, InvalidInput for an answer that the model does not take, and JournalError if it could
        not be written.
        """
        checked = check_id(id)
        return self._engine.run(lambda now: self._engine.answer(now, checked, correct, label, reward))

    def learn_from(self, log: "Log", *, prefix: str = "", skip_bad: bool = False) -> "Learned":
        """Record decisions that were made elsewhere, with their probabilities, and learn from their outcomes.

        A decision is recorded under its id in the log, and answered after as many other decisions as in the log: by its
        `delays`, else by its times, else at once. One without an outcome stays open. Decisions that the model has
        already are not recorded again, and only answered if they are open: after an interruption call it again.

        Parameters
        ----------
        log : dt.logs.Log
            Its classes must be classes of the model, and its features such as `decide` takes; or rows that a model with
            as many hashed features exported.
        prefix : str
            Prefix of the ids in the model: for several logs whose rows are numbered.
        skip_bad : bool
            Leave out decisions with an id that is too long, or with features that the model refuses; by default such a
            decision raises `InvalidInput` before anything is recorded.

        Returns
        -------
        Learned
            Counts of what was recorded, answered and left out, and the mean reward of the policy that was logged.

        Raises
        ------
        InvalidInput
            If the log has other classes or features than the model, or rewards that its learner does not take.

        Examples
        --------
        >>> import delaytron as dt
        >>> log = dt.logs.from_arrays(features=[{"hour": 7}, {"hour": 20}], labels=[1, 0], probs=[0.9, 0.5],
        ...                           rewards=[1, None], classes=["tea", "coffee"], ids=["a", "b"])
        >>> model = Model(classes=["tea", "coffee"], bits=10, seed=7)
        >>> learned = model.learn_from(log)
        >>> learned.recorded, learned.answered, learned.mean_reward
        (2, 1, 1.0)
        >>> model.feedback("b", reward=0.5)
        'accepted'
        """
        from delaytron.model.log_import import learn_from  # noqa: PLC0415 - seldom needed

        return learn_from(self._engine, log, prefix, skip_bad)

    def cancel(self, id: str) -> str:
        """Cancel an open decision; later feedback for it is ignored.

        Returns "cancelled", or "duplicate" if it was cancelled before. Raises UnknownDecision if the id was never
        issued, ConflictingFeedback if it was answered or has expired.
        """
        checked = check_id(id)
        return self._engine.run(lambda now: self._engine.cancel(now, checked))

    def decision(self, id: str) -> DecisionStatus:
        """Return a decision by its id: what was decided, its status, and its answer.

        Raises UnknownDecision if the id was never issued.

        Examples
        --------
        >>> model = Model(classes=["a", "b"], features=1, seed=1)
        >>> _ = model.decide([1.0], id="req-1"), model.feedback("req-1", reward=0.25)
        >>> found = model.decision("req-1")
        >>> found.status, found.value, found.round
        ('answered', 0.25, 1)
        """
        checked = check_id(id)
        return self._engine.run(lambda _: decision_status(self._engine, checked))

    def predict(self, x: Any) -> Name:
        """Return the class that looks best; explores nothing and changes nothing."""
        return look(self._engine, x, None).label

    def probabilities(self, x: Any, *, allowed: Iterable[Name] | None = None) -> dict[Name, float]:
        """Return the probability of each class to be chosen now; explores nothing and changes nothing."""
        return look(self._engine, x, allowed).probabilities

    def explain(self, x: Any) -> Explanation:
        """Return the score of each class, in parts: a constant, and what each feature adds."""
        return explain(self._engine, x)

    def add_class(self, name: Name) -> None:
        """Add a class, or make a retired one active again; decisions may be open.

        Raises InvalidInput if there is such a class already, or the learner cannot take another one.
        """
        self._engine.run(lambda now: self._engine.add_class(now, name))

    def retire_class(self, name: Name) -> None:
        """Retire a class: it is not chosen any more; answers to decisions for it are still accepted.

        Raises InvalidInput if there is no such class, it is retired already, or it is the last one.
        """
        self._engine.run(lambda now: self._engine.retire_class(now, name))

    @property
    def classes(self) -> list[Name]:
        """The classes that may be chosen."""
        engine = self._engine
        if engine.is_inherited:
            return engine.state.classes.active
        return engine.read(lambda state: state.classes.active)  # after a rollback, the state is first restored

    def open_decisions(self) -> list[OpenDecision]:
        """Return the open decisions, the oldest first."""
        return open_decisions(self._engine)

    def stats(self) -> Stats:
        """Return counts of decisions and answers, in all and by class."""
        return stats_of(self._engine)

    def digest(self) -> str:
        """Return a SHA-256 of the state: what was learned, open decisions, counts. Equal states have equal digests."""
        return self._engine.run(lambda _: digest(self._engine.state, self._engine.recipe))

    @property
    def at_risk(self) -> AtRisk | None:
        """The most that a crash can cost of what was acknowledged; without a journal None: a crash costs everything."""
        return self._engine.writer.at_risk if self._engine.store.keeps_facts else None

    def save(self, path: str | Path) -> None:
        """Write the model to one file, which needs no journal; `dt.load` reads it."""
        replace_file(check_path("path", path), self._engine.run(lambda _: self._engine.pack_with_ids()))

    def export_onnx(self, path: str | Path) -> None:
        """Write `predict` as an ONNX graph, for vectors or a list of named features; see `Learner.export_onnx`.

        Raises InvalidInput if features are hashed.
        """
        from delaytron.model.export import export  # noqa: PLC0415 - seldom needed

        export(self._engine, path)

    def export_log(self, path: str | Path) -> "Exported":
        """Write the decisions of the journal and their answers as a Parquet file for `dt.logs.read_parquet`.

        Returns how many were written. Raises InvalidInput without a journal.
        """
        from delaytron.model.export import export_own  # noqa: PLC0415 - seldom needed

        return export_own(self._engine.store, path)

    def close(self) -> None:
        """Close the journal; it can be opened again. Does nothing in a forked child: the journal is its parent's."""
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(
            f"a Model cannot be changed once it is made, {name} neither; make a new one with {name}={shown(value)}"
        )

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Model cannot be changed once it is made, {name} neither; make a new one")

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            "a Model cannot be copied or pickled, since ids are issued once only; use save(path) and dt.load(path), "
            "and dt.Journal(path) to give feedback from another process"
        )

    def __repr__(self) -> str:
        state, asked = self._engine.state, self._engine.recipe.asked  # without `read`: a repr never waits or raises
        return f"Model({state.classes.active}, learner={asked['learner']!r}, open={state.pending})"

    def _repr_html_(self) -> str:
        from delaytron.model.inspection import show  # noqa: PLC0415 - for notebooks only

        return show(self._engine)


def load(path: str | Path) -> Any:
    """Read a learner or a model that `save` wrote; it continues exactly as the saved one would have.

    Raises InvalidInput if the file is damaged. A learner whose numbers had overflowed before it was saved is read with
    a warning: its open decisions are there, its weights are useless.

    Examples
    --------
    >>> import delaytron as dt, tempfile
    >>> learner = dt.Delaytron(n_classes=3, n_features=2, seed=7)
    >>> decision = learner.decide([1.0, 0.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     learner.save(f"{folder}/model.safetensors")
    ...     again = dt.load(f"{folder}/model.safetensors")
    >>> again.pending, again.feedback(decision.id, correct=True)
    (1, 'accepted')
    """
    texts, tensors = read_tensors(check_path("path", path))
    if texts.get("format", "").startswith(FAMILY):
        return Model._of(load_engine(texts, tensors, str(path)))
    return files.learner_of(path, texts, tensors)

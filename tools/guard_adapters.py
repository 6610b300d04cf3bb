"""What guards read of learners and models that is private: one adapter per version of the code.

`Before` reads the code before the rebuild of issue 25, `After` the code since. A rebuild changes `After` and nothing
else of the guards.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import numpy as np

import delaytron as dt

Noise = tuple[float, float] | None  # rates at which "wrong" arrives as "right", and "right" as "wrong"
Heard = Callable[[dt.Learner, int, bool], bool]  # learner, round, whether it was right -> the answer that arrives


def heard_as_it_is(_learner: dt.Learner, _number: int, correct: bool) -> bool:
    """Return the answer without noise."""
    return correct


class Before:
    """Reads the code before the rebuild. The adapter of another version returns the same plain values.

    A *play* is a round as an update needs it: a dict of round, greedy, label, prob, extra (float64 array of what the
    learner noted), indices (None for a dense row, else an int64 array) and values (float64 array of the row).
    """

    def state(self, learner: dt.Learner) -> dict[str, Any]:
        """Return the learned arrays by name, not copied; without scratch space.

        Of a pool (`dt.Bold`), copies, and only of the instances that have played: `free` are those without an open
        round, in the order in which they became free; `pool` is how many these are and how many instances there are.
        """
        fields = {name: field for name, field in learner.state._asdict().items() if name not in learner.rule.scratch}
        if isinstance(learner, dt.Bold):
            head, n_free, made = (int(number) for number in fields.pop("pool"))
            free = np.roll(fields.pop("free"), -head)[:n_free]
            fields = {name: field[:made] for name, field in fields.items()}
            fields |= {"free": free, "pool": np.array([n_free, made])}
        return fields

    def plays(self, learner: dt.Learner) -> list[dict[str, Any]]:
        """Return the plays that are open, or expired as wrong and correctable, in the order of rounds."""
        ledger: Any = learner.ledger
        kept = [n for n in sorted(ledger.plays) if ledger.answers[n - 1] in (-1, -2) and ledger.arrived.get(n) != 3]
        return [self._play(learner, number) for number in kept]

    def pending(self, learner: dt.Learner) -> list[dict[str, Any]]:
        """Return what arrived and is not applied yet, in the order of rounds: plays with `kind` and `value`.

        The kind is "answer"; "wrong" for a decision that expired as wrong; "correction" for an answer to a decision of
        which "wrong" was applied before. The value is the answer as a float, 0.0 for "wrong". Dropped and cancelled
        decisions change no weights and are left out.
        """
        ledger: Any = learner.ledger
        kinds = {0: "answer", 1: "wrong", 2: "correction"}
        return [
            self._play(learner, n) | {"kind": kinds[kind], "value": max(0.0, float(ledger.answers[n - 1]))}
            for n, kind in sorted(ledger.arrived.items())
            if kind in kinds
        ]

    def _play(self, learner: dt.Learner, number: int) -> dict[str, Any]:
        return self._as_dict(learner.ledger.play(number))

    def _as_dict(self, play: Any) -> dict[str, Any]:
        return {
            "round": int(play.round),
            "greedy": int(play.greedy),
            "label": int(play.label),
            "prob": float(play.prob),
            "extra": np.array(play.extra),
            "indices": None if play.x.indices is None else np.array(play.x.indices),
            "values": np.array(play.x.values),
        }

    def status(self, learner: dt.Learner, number: int) -> tuple[str, float | None]:
        """Return the status of a round, "open", "answered", "expired" or "cancelled"; and its answer, if answered.

        No status is read of a round that was answered or cancelled before the learner was saved and loaded.
        """
        answer = float(learner.ledger.answers[number - 1])
        if answer >= 0:
            return "answered", answer
        return {-1.0: "open", -2.0: "expired", -3.0: "cancelled"}[answer], None

    def next_draw(self, learner: dt.Learner) -> float:
        """Return the uniform number of the next decision, and leave it the next one."""
        return float(deepcopy(learner._draws).random())

    def use_draws(self, learner: dt.Learner, draws: Any) -> None:
        """Give a learner the uniform numbers of the decisions to come."""

        class Script:
            random = iter(draws.tolist()).__next__

        learner._draws = Script()  # type: ignore[assignment]

    def replay(self, make: Callable[..., dt.Learner], noise: Noise, *arrays: Any) -> Any:
        """Return `dt.replay` of the learner that `make(**settings)` returns; noise is drawn from its seed."""
        return dt.replay(make(noise=noise) if noise else make(), *arrays)  # type: ignore[call-arg,unused-ignore]

    def simulate(self, name: str, data: Any, noise: Noise, **settings: Any) -> Any:
        """Return `dt.simulate`, with flipped answers unless noise is None."""
        return dt.simulate(name, data, **settings | ({"noise": noise} if noise else {}))

    def learner_of(self, model: dt.Model) -> dt.Learner:
        """Return the learner of a model, not a copy."""
        return model._keeper.core.learner

    def model_status(self, model: dt.Model, id: str) -> tuple[str, float | None]:
        """Return the status of an id, as above; with the answer of an expired one if it came too late to be learned.

        Answers are floats: 0 for wrong to 1 for right, or the index of the true class with label feedback.
        """
        known: Any = model._keeper.run(lambda _: model._keeper.store.status(id))
        return ("open", "answered", "expired", "cancelled")[known.status], known.value

    def catch_up(self, model: dt.Model) -> None:
        """Take answers of other processes and expire what is due by now, as every call of a model does first."""
        model._keeper.run(lambda _: None)

    def _clock_class(self) -> Any:
        from delaytron.journal.clock import Clock  # noqa: PLC0415 - another version has it elsewhere

        return Clock

    @contextmanager
    def clock(self) -> Iterator[Callable[[float], None]]:
        """Stop the clock of every model made within; yield the function that advances it by seconds."""
        now = [1_700_000_000 * 10**9]
        defaults: Any = self._clock_class().__init__.__kwdefaults__
        before = dict(defaults)
        defaults.update(wall=lambda: now[0], uptime=lambda: now[0] - 10**18, boot_id=lambda: "boot")

        def advance(seconds: float) -> None:
            now[0] += round(seconds * 10**9)

        try:
            yield advance
        finally:
            defaults.update(before)


class After(Before):
    """Reads the code of the rebuild: a learner has a `book`, and `noise` is an argument of simulations."""

    def plays(self, learner: dt.Learner) -> list[dict[str, Any]]:
        """Return the plays that are open, or expired as wrong and correctable, in the order of rounds."""
        book: Any = learner.book
        kept = [n for n in sorted(book.kept) if n not in book.ended or book.ended[n].status.name == "EXPIRED"]
        return [self._play(learner, number) for number in kept]

    def pending(self, learner: dt.Learner) -> list[dict[str, Any]]:
        """Return what arrived and is not applied yet, in the order of rounds: plays with `kind` and `value`."""
        book: Any = learner.book
        kinds = {0: "answer", 1: "wrong", 2: "correction"}
        return [
            self._play(learner, n) | {"kind": kinds[book.ended[n].event], "value": float(book.ended[n].value or 0)}
            for n in book.to_apply()
        ]

    def _play(self, learner: dt.Learner, number: int) -> dict[str, Any]:
        return self._as_dict(learner.book.play(number))

    def status(self, learner: dt.Learner, number: int) -> tuple[str, float | None]:
        """Return the status of a round, and its answer, if answered."""
        known: Any = learner.book.known(number)
        status = known.status.name.lower()
        return status, float(known.value) if status == "answered" else None

    def learner_of(self, model: dt.Model) -> dt.Learner:
        """Return the learner of a model, not a copy."""
        return model._engine.state.learner

    def model_status(self, model: dt.Model, id: str) -> tuple[str, float | None]:
        """Return the status of an id, and its answer."""
        known: Any = model._engine.run(lambda _: model._engine.store.known(id))
        return known.status.name.lower(), known.value

    def catch_up(self, model: dt.Model) -> None:
        """Take answers of other processes and expire what is due by now, as every call of a model does first."""
        model._engine.run(lambda _: None)

    def _clock_class(self) -> Any:
        from delaytron.journal.ids import Clock  # noqa: PLC0415

        return Clock

    def simulate(self, name: str, data: Any, noise: Noise, **settings: Any) -> Any:
        """Return `dt.simulate`, with flipped answers unless noise is None.

        What counted as wrong used to be correctable for ever; by default it is for ten times `expire_after` now.
        """
        ever = {"correct_within": 10**9} if settings.get("on_expiry") == "wrong" else {}
        return super().simulate(name, data, noise, **settings, **ever)

    def replay(self, make: Callable[..., dt.Learner], noise: Noise, *arrays: Any) -> Any:
        """Return `dt.replay` of the learner that `make(heard=...)` returns; noise is drawn from its seed.

        Learners used to flip what they were taught online before, by the same random stream, a number for each round.
        """
        from delaytron.rng import stream  # noqa: PLC0415 - private

        def flipped(learner: dt.Learner, number: int, correct: bool) -> bool:
            draw = stream(learner.seed, "noise").random(number)[-1]
            return correct != bool(draw < (noise or (0.0, 0.0))[correct])

        X, y, delays, draws = arrays
        return dt.replay(make(heard=flipped), X, y, delays, draws, noise=noise)  # type: ignore[call-arg,unused-ignore]


ADAPTER = After() if "noise" in inspect.signature(dt.replay).parameters else Before()

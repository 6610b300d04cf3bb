"""The backend of one process: a folder of journals, and an engine for each.

Every request is an operation that the writer of its journal runs: all that wait share a transaction and a commit.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from logging import getLogger
from pathlib import Path
from typing import Any, TypeVar

from delaytron.errors import DelaytronError, JournalError
from delaytron.journal.database import has_journal
from delaytron.journal.ids import check_id
from delaytron.journal.store import BusyError
from delaytron.model import facts
from delaytron.model.engine import Engine, Request, check_distinct_ids, open_engine, reopen_engine
from delaytron.model.inspection import explain_row
from delaytron.model.snapshots import digest
from delaytron.records import Moment
from delaytron.service import messages
from delaytron.service.backend import (
    Rates,
    Repeatable,
    as_features,
    check_each,
    check_same_model,
    class_named,
    decision_state,
    encode_replies,
    model_reply,
    recipe_of,
    repeated,
    stats_reply,
    weights_reply,
)
from delaytron.service.problems import TooMany, Unavailable, failed, nothing_left, purged, unknown_model
from delaytron.service.security import Limits

ENDING = ".db"
FACTS_READ = (4, 100)  # for each recent decision, in the first and in the second attempt
T = TypeVar("T")
log = getLogger("delaytron.service")


class ServedModel:
    """A model by its name. Methods that take `now` are operations, which its writer runs."""

    def __init__(self, name: str, engine: Engine, limits: Limits) -> None:
        self.name = name
        self.engine = engine
        self.rates = Rates()
        self._limits = limits

    def decide(
        self, now: Moment, wanted: list[messages.DecisionRequest], repeatable: Repeatable | None
    ) -> list[messages.DecisionReply]:
        """Make all decisions of a request, or none; a retry with the same idempotency key gets the stored reply."""
        engine = self.engine
        if repeatable is not None and (before := engine.store.stored_reply(repeatable.key)) is not None:
            return repeated(before, repeatable)

        def check(one: messages.DecisionRequest) -> Request:
            self._limits.check_features(one.features)
            return engine.check(as_features(engine.state.encoder, one.features), one.id, one.allowed)

        checked = check_each(wanted, check)
        check_distinct_ids([request.id for request in checked])
        retries = [engine.is_retry(request) for request in checked]  # before the first one changes anything
        self._limits.check_open(engine.state.pending, retries.count(False))
        replies = []
        for request in checked:
            rounds = engine.state.rounds
            decision = engine.decide_checked(now, request)
            if decision.round > rounds:  # else it is a retry
                self.rates.count(1, decision.label != decision.greedy)
            replies.append(messages.DecisionReply(decision.id, decision.label, decision.prob, decision.round))
        if repeatable is not None:
            engine.store.keep_reply(repeatable.key, repeatable.fingerprint, encode_replies(replies), now)
        return replies

    def feedback(self, now: Moment, given: messages.FeedbackRequest) -> Any:
        """Store an answer and return its result; raise UnknownDecision, ConflictingFeedback, or Gone after a purge."""
        checked = check_id(given.id)
        known = self.engine.store.known(checked)
        if known is not None and known.purged:
            raise purged(checked)
        return self.engine.answer(now, checked, given.correct, given.label, given.reward)

    def described(self) -> messages.ModelReply:
        """Return the model as clients see it."""
        return model_reply(self.name, self.engine.recipe, self.engine.state)

    def find(self, id: str) -> messages.DecisionState:
        """Return a decision and its status."""
        return decision_state(id, self.engine.state.classes.names, self.engine.find(id))

    def recent(self, count: int) -> list[messages.DecisionState]:
        """Return the last decisions, the newest first; fewer if most of the last facts are answers."""
        store = self.engine.store
        last, recent = store.last_seq, []
        for reach in FACTS_READ:
            after = max(0, last - reach * count)
            recent = [fact.id for fact in store.facts(after) if fact.kind in facts.DECISIONS]
            if after == 0 or len(recent) >= count:
                break
        return [self.find(issued) for issued in reversed(recent[-count:]) if issued is not None]


class Models:
    """A `Backend` on a folder of journals; other processes may answer by `dt.Journal`, but not decide."""

    def __init__(self, folder: Path, limits: Limits = Limits()) -> None:  # noqa: B008 - never changed
        self._folder = folder
        self._limits = limits
        self._served: dict[str, ServedModel] = {}
        self._broken: dict[str, tuple[str, str]] = {}  # name -> problem and hint
        self._making = asyncio.Lock()
        self._unready: tuple[str, str] | None = ("journals are being opened", "try again")  # problem and hint

    async def start(self) -> None:
        """Open all journals of the folder; one that cannot be opened is refused, and the others are served."""
        for path in sorted(self._folder.glob(f"*{ENDING}")):
            try:
                if not has_journal(path):
                    continue  # empty: a crash came while it was created, so that was not acknowledged
                engine = await asyncio.to_thread(_compiled, reopen_engine, path)
                self._served[path.stem] = ServedModel(path.stem, engine, self._limits)
            except DelaytronError as problem:
                self._broken[path.stem] = _unserved(path, problem)
        self._unready = None

    async def stop(self) -> None:
        """Finish what has begun, and close all journals."""
        self._unready = ("the service is stopping", "try again")
        closing = [asyncio.to_thread(served.engine.close) for served in self._served.values()]
        for problem in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(problem, Exception):
                log.error("a journal was not closed cleanly; what was acknowledged is on disk", exc_info=problem)

    def unready(self) -> Unavailable | None:
        """Return the error that requests get now; None if the backend is ready."""
        # A new one each time: an error that is raised again and again collects a traceback of all of its raises.
        return None if self._unready is None else Unavailable(*self._unready)

    def _check_ready(self) -> None:
        error = self.unready()
        if error is not None:
            raise error

    def _find(self, name: str) -> ServedModel:
        self._check_ready()
        if name in self._broken:
            raise Unavailable(*self._broken[name])
        if name not in self._served:
            raise unknown_model(name, self._served)
        return self._served[name]

    async def _run(self, name: str, operation: Callable[[ServedModel, Moment], T]) -> T:
        """Run an operation in the writer of its journal; return its result when that is on disk.

        Raises what the operation raised, TooMany if too many wait, and Unavailable if the journal or the code failed.
        """
        served = self._find(name)
        try:
            return await served.engine.writer.submit(partial(operation, served), asyncio.get_running_loop())
        except BusyError as problem:
            raise TooMany("too many requests wait for the disk already", "try again") from problem
        except JournalError as problem:
            log.warning("%s", problem)  # it names a file of this machine, which clients must not see
            raise failed("the journal could not be written or read") from problem
        except DelaytronError:
            raise
        except Exception as problem:
            log.exception("an operation failed")
            raise failed() from problem

    async def create(self, wanted: messages.NewModel) -> tuple[messages.ModelReply, bool]:
        """Make a model, or find the same one; return it, and whether it is new."""
        self._limits.check_model(wanted)
        recipe = await asyncio.to_thread(recipe_of, wanted)
        async with self._making:
            self._check_ready()
            if wanted.name in self._served or wanted.name in self._broken:
                check_same_model(self._find(wanted.name).engine.recipe, wanted, recipe)
                return await self.model(wanted.name), False
            self._limits.check_room(len(self._served))
            path = self._folder / f"{wanted.name}{ENDING}"
            try:
                engine = await asyncio.to_thread(_compiled, open_engine, recipe, path, "full")
            except DelaytronError as problem:  # of the file: the recipe was checked before
                raise Unavailable(*_unserved(path, problem)) from problem
            self._served[wanted.name] = ServedModel(wanted.name, engine, self._limits)
        return await self.model(wanted.name), True

    async def models(self) -> list[messages.ModelReply]:
        """Return all models, by their names."""
        return [await self.model(name) for name in sorted(self._served)]

    async def model(self, name: str) -> messages.ModelReply:
        """Return one model."""
        return await self._run(name, lambda served, _: served.described())

    async def decide(
        self, name: str, wanted: list[messages.DecisionRequest], repeatable: Repeatable | None
    ) -> list[messages.DecisionReply]:
        """Make all of these decisions, or none."""
        self._limits.check_batch(len(wanted))
        return await self._run(name, lambda served, now: served.decide(now, wanted, repeatable))

    async def feedback(self, name: str, given: list[messages.FeedbackRequest]) -> list[messages.Result | Exception]:
        """Store answers; each has its own result."""
        self._limits.check_batch(len(given))
        self._find(name)
        runs = [self._run(name, partial(ServedModel.feedback, given=one)) for one in given]
        return list(await asyncio.gather(*runs, return_exceptions=True))

    async def cancel(self, name: str, id: str) -> messages.Result:
        """Cancel an open decision; later feedback for it is ignored."""
        result: Any = await self._run(name, lambda served, now: served.engine.cancel(now, check_id(id)))
        return result  # type: ignore[no-any-return]

    async def decision(self, name: str, id: str) -> messages.DecisionState:
        """Return a decision and its status."""
        return await self._run(name, lambda served, _: served.find(check_id(id)))

    async def recent(self, name: str, count: int) -> list[messages.DecisionState]:
        """Return the last decisions, the newest first."""
        return await self._run(name, lambda served, _: served.recent(count))

    async def explain(self, name: str, id: str) -> messages.ExplanationReply:
        """Return why a class looks best for the features of a decision."""

        def operation(served: ServedModel, _: Moment) -> messages.ExplanationReply:
            found = served.engine.find(check_id(id))
            if found.row is None:
                raise nothing_left(id)
            return messages.ExplanationReply(**explain_row(served.engine.state, found.row)._asdict())

        return await self._run(name, operation)

    async def add_class(self, name: str, wanted: messages.NewClass) -> messages.ModelReply:
        """Add a class."""

        def operation(served: ServedModel, now: Moment) -> messages.ModelReply:
            self._limits.check_classes(len(served.engine.state.classes.names) + 1)
            served.engine.add_class(now, wanted.name)
            return served.described()

        return await self._run(name, operation)

    async def retire_class(self, name: str, label: Any) -> messages.ModelReply:
        """Retire a class: it is not chosen any more."""

        def operation(served: ServedModel, now: Moment) -> messages.ModelReply:
            served.engine.retire_class(now, class_named(served.engine.state.classes.names, label))
            return served.described()

        return await self._run(name, operation)

    async def stats(self, name: str) -> messages.StatsReply:
        """Return counts and rates."""
        return await self._run(name, lambda served, now: stats_reply(served.engine.state, now, served.rates))

    async def digest(self, name: str) -> messages.DigestReply:
        """Return the hash of the state of a model."""
        return await self._run(
            name, lambda served, _: messages.DigestReply(digest(served.engine.state, served.engine.recipe))
        )

    async def weights(self, name: str) -> messages.WeightsReply:
        """Return the weights."""
        return await self._run(name, lambda served, _: weights_reply(served.engine.state))


def _unserved(path: Path, problem: DelaytronError) -> tuple[str, str]:
    """Log why a journal cannot be opened; return problem and hint for clients, without the path on this machine."""
    log.warning("%s", problem)
    reason = problem.problem
    for folder in (path.resolve().parent, path.absolute().parent):
        reason = reason.replace(f"{folder}/", "").replace(str(folder), "of the service")
    reason = reason.replace(str(path), path.name)
    return (
        f"model {path.stem!r} cannot be served: {reason}",
        f"repair {path.name} in the folder of the service, and start it again",
    )


def _compiled(opened: Callable[..., Engine], *arguments: Any) -> Engine:
    """Return an engine whose learner is compiled, so that its first decision is as fast as the others."""
    engine = opened(*arguments)
    engine.state.learner.compile()
    return engine

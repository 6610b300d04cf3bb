"""`dt.AsyncClient`: a service from an event loop. The same requests and tries as those of `dt.Client`."""

import asyncio
from collections.abc import Iterable
from typing import Any, Self, TypeVar

from delaytron.errors import DelaytronError
from delaytron.model.classes import Name
from delaytron.service.client import requests
from delaytron.service.client.answers import GivenAnswer
from delaytron.service.client.http import (
    DEFAULT_URL,
    as_no_reply,
    as_reply,
    check_open,
    check_settings,
    http_arguments,
    http_options,
    import_httpx,
)
from delaytron.service.client.replies import RemoteDecision, Word
from delaytron.service.client.requests import ClientRequest
from delaytron.service.client.tries import HttpReply, NoReply, Tries
from delaytron.service.messages import DecisionState, ExplanationReply, ModelReply, StatsReply, WeightsReply

T = TypeVar("T")


class AsyncClient:
    """What `dt.Client` is, to be awaited: the same parameters, and the same methods.

    Examples
    --------
    >>> async def route(prompt):
    ...     async with AsyncClient("http://127.0.0.1:8100") as client:
    ...         return await client.model("router").decide({"prompt": prompt})
    """

    def __init__(self, url: str = DEFAULT_URL, key: str | None = None, timeout: float = 10, retries: int = 4) -> None:
        self._settings = check_settings(url, key, timeout, retries)
        self._http = import_httpx().AsyncClient(**http_options(self._settings))
        self._failures = import_httpx().RequestError

    async def create_model(self, name: str, classes: Iterable[Name], **options: Any) -> "AsyncRemoteModel":
        """Make a model, or find the same one again; see `Client.create_model`."""
        await self._send(requests.create_model(name, classes, options))
        return self.model(name)

    async def models(self) -> list[ModelReply]:
        """Return all models."""
        return await self._send(requests.list_models())

    def model(self, name: str) -> "AsyncRemoteModel":
        """Return a model by its name; nothing is sent yet."""
        return AsyncRemoteModel(self, name)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _send(self, request: ClientRequest[T]) -> T:
        tries = Tries(request, self._settings.shown, self._settings.retries)
        while (wait := tries.take(await self._try(request))) is not None:
            await asyncio.sleep(wait)
        return tries.result()

    async def _try(self, request: ClientRequest[Any]) -> HttpReply | NoReply:
        check_open(self._http)
        try:
            return as_reply(await self._http.request(**http_arguments(self._settings, request)))
        except self._failures as problem:
            return as_no_reply(problem)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncClient({self._settings.shown!r})"


class AsyncRemoteModel:
    """A model of a service, by its name; what `RemoteModel` is, to be awaited."""

    def __init__(self, client: AsyncClient, name: str) -> None:
        self.name = requests.check_model_name(name)
        self._client = client
        self._send = client._send

    async def decide(
        self,
        features: Any,
        *,
        id: str | None = None,
        allowed: Iterable[Name] | None = None,
        stateless: bool | None = None,
    ) -> RemoteDecision:
        """Choose a class; see `RemoteModel.decide`."""
        return await self._send(requests.decide(self.name, features, id, allowed, stateless))

    async def decide_many(
        self,
        xs: Iterable[Any],
        *,
        ids: Iterable[str] | None = None,
        allowed: Iterable[Name] | None = None,
        stateless: bool | None = None,
    ) -> list[RemoteDecision]:
        """Choose a class for each of many, 1,000 at most; all of them or, after an error, none."""
        return await self._send(requests.decide_many(self.name, xs, ids, allowed, stateless))

    async def feedback(
        self,
        id: str | None = None,
        correct: bool | None = None,
        *,
        label: Name | None = None,
        reward: float | None = None,
        token: str | None = None,
    ) -> Word:
        """Give the answer to a decision; see `RemoteModel.feedback` for what is returned."""
        answer = GivenAnswer(id=id, token=token, correct=correct, label=label, reward=reward)
        return await self._send(requests.feedback(self.name, answer))

    async def feedback_many(self, answers: Iterable[GivenAnswer]) -> list[Word | DelaytronError]:
        """Give many answers, each as `{"id": "req-17", "correct": True}`; what is refused is returned as an error."""
        return await self._send(requests.feedback_many(self.name, answers))

    async def cancel(self, id: str) -> Word:
        """Want no answer to a decision. Returns "cancelled"; "duplicate" if it was already; or "known"."""
        return await self._send(requests.cancel(self.name, id))

    async def decision(self, id: str) -> DecisionState:
        """Return a decision, and what became of it."""
        return await self._send(requests.decision(self.name, id))

    async def recent(self) -> list[DecisionState]:
        """Return the last decisions, the newest first."""
        return await self._send(requests.recent(self.name))

    async def explain(self, id: str) -> ExplanationReply:
        """Return why a class looks best now for the features of a decision."""
        return await self._send(requests.explain(self.name, id))

    async def add_class(self, name: Name) -> None:
        """Add a class, or let a retired one come back."""
        await self._send(requests.add_class(self.name, name))

    async def retire_class(self, name: Name) -> None:
        """Let a class not be chosen any more."""
        await self._send(requests.retire_class(self.name, name))

    async def describe(self) -> ModelReply:
        """Return how the model was made, its classes, and what it has decided."""
        return await self._send(requests.show_model(self.name))

    async def stats(self) -> StatsReply:
        """Return counts and rates."""
        return await self._send(requests.stats(self.name))

    async def digest(self) -> str:
        """Return a SHA-256 of all that was learned and is waited for."""
        return await self._send(requests.digest(self.name))

    async def weights(self) -> WeightsReply:
        """Return the weights, of hashed features those that are not 0."""
        return await self._send(requests.weights(self.name))

    def __repr__(self) -> str:
        return f"AsyncRemoteModel({self.name!r} at {self._client._settings.shown})"

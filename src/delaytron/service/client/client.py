"""`dt.Client`: a service from any thread."""

from collections.abc import Iterable
from time import sleep
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


class Client:
    """A decision service, as `delaytron serve` runs it. Any thread may use it.

    Parameters
    ----------
    url : str
        Where the service listens.
    key : str, optional
        The API key, if the service has keys; making models and classes needs one for admins.
    timeout : float
        Seconds to wait for the service in one try; for a new model at least 120, since its learner may be compiled.
    retries : int
        How often a request is sent again, at most.

    Examples
    --------
    >>> with Client("http://127.0.0.1:8100") as client:
    ...     client.model("router")
    RemoteModel('router' at http://127.0.0.1:8100)
    """

    def __init__(self, url: str = DEFAULT_URL, key: str | None = None, timeout: float = 10, retries: int = 4) -> None:
        self._settings = check_settings(url, key, timeout, retries)
        self._http = import_httpx().Client(**http_options(self._settings))
        self._failures = import_httpx().RequestError

    def create_model(self, name: str, classes: Iterable[Name], **options: Any) -> "RemoteModel":
        """Make a model, or find the same one again.

        `options` are those of `dt.Model`, parameters of the learner too, and `stateless=True`: decisions travel in
        tokens. Another model of the same name is a `Conflict`.
        """
        self._send(requests.create_model(name, classes, options))
        return self.model(name)

    def models(self) -> list[ModelReply]:
        """Return all models."""
        return self._send(requests.list_models())

    def model(self, name: str) -> "RemoteModel":
        """Return a model by its name; nothing is sent yet."""
        return RemoteModel(self, name)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _send(self, request: ClientRequest[T]) -> T:
        tries = Tries(request, self._settings.shown, self._settings.retries)
        while (wait := tries.take(self._try(request))) is not None:
            sleep(wait)
        return tries.result()

    def _try(self, request: ClientRequest[Any]) -> HttpReply | NoReply:
        check_open(self._http)
        try:
            return as_reply(self._http.request(**http_arguments(self._settings, request)))
        except self._failures as problem:
            return as_no_reply(problem)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._settings.shown!r})"


class RemoteModel:
    """A model of a service, by its name."""

    def __init__(self, client: Client, name: str) -> None:
        self.name = requests.check_model_name(name)
        self._client = client
        self._send = client._send

    def decide(
        self,
        features: Any,
        *,
        id: str | None = None,
        allowed: Iterable[Name] | None = None,
        stateless: bool | None = None,
    ) -> RemoteDecision:
        """Choose a class for features: a dict, numbers, or one sparse row, as `dt.Model.decide` takes them.

        It is decided once, even if a reply is lost and the request sent again. A stateless decision is kept by its
        `token` only: the service forgets it until that comes back.
        """
        return self._send(requests.decide(self.name, features, id, allowed, stateless))

    def decide_many(
        self,
        xs: Iterable[Any],
        *,
        ids: Iterable[str] | None = None,
        allowed: Iterable[Name] | None = None,
        stateless: bool | None = None,
    ) -> list[RemoteDecision]:
        """Choose a class for each of many, 1,000 at most; all of them or, after an error, none."""
        return self._send(requests.decide_many(self.name, xs, ids, allowed, stateless))

    def feedback(
        self,
        id: str | None = None,
        correct: bool | None = None,
        *,
        label: Name | None = None,
        reward: float | None = None,
        token: str | None = None,
    ) -> Word:
        """Give the answer to a decision, named by its id or its token.

        Returns "applied"; "duplicate" when the same answer was given before; after the expiry "late_corrected" or
        "late_recorded"; "cancelled" when nobody waits for it any more. And "known" when the service has this answer,
        but a reply was lost on the way: whether this call brought it or somebody before, cannot be told.
        """
        answer = GivenAnswer(id=id, token=token, correct=correct, label=label, reward=reward)
        return self._send(requests.feedback(self.name, answer))

    def feedback_many(self, answers: Iterable[GivenAnswer]) -> list[Word | DelaytronError]:
        """Give many answers, each as `{"id": "req-17", "correct": True}`; what is refused is returned as an error."""
        return self._send(requests.feedback_many(self.name, answers))

    def cancel(self, id: str) -> Word:
        """Want no answer to a decision. Returns "cancelled"; "duplicate" if it was already; or "known", as above."""
        return self._send(requests.cancel(self.name, id))

    def decision(self, id: str) -> DecisionState:
        """Return a decision, and what became of it."""
        return self._send(requests.decision(self.name, id))

    def recent(self) -> list[DecisionState]:
        """Return the last decisions, the newest first."""
        return self._send(requests.recent(self.name))

    def explain(self, id: str) -> ExplanationReply:
        """Return why a class looks best now for the features of a decision."""
        return self._send(requests.explain(self.name, id))

    def add_class(self, name: Name) -> None:
        """Add a class, or let a retired one come back."""
        self._send(requests.add_class(self.name, name))

    def retire_class(self, name: Name) -> None:
        """Let a class not be chosen any more."""
        self._send(requests.retire_class(self.name, name))

    def describe(self) -> ModelReply:
        """Return how the model was made, its classes, and what it has decided."""
        return self._send(requests.show_model(self.name))

    def stats(self) -> StatsReply:
        """Return counts and rates."""
        return self._send(requests.stats(self.name))

    def digest(self) -> str:
        """Return a SHA-256 of all that was learned and is waited for, as `delaytron verify` finds it."""
        return self._send(requests.digest(self.name))

    def weights(self) -> WeightsReply:
        """Return the weights, of hashed features those that are not 0."""
        return self._send(requests.weights(self.name))

    def __repr__(self) -> str:
        return f"RemoteModel({self.name!r} at {self._client._settings.shown})"

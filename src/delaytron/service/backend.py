"""What the routes ask of those who keep the models: journals in a folder, or PostgreSQL."""

from typing import Any, NamedTuple, Protocol

from delaytron.service import messages


class Repeatable(NamedTuple):
    """What makes a request one that may come again: its `Idempotency-Key`, and a hash of its body."""

    key: str
    fingerprint: bytes


class Backend(Protocol):
    """Keeps models by their names. Its errors are those of `delaytron.errors` and of `service.problems`."""

    async def start(self) -> None:
        """Open what there is; until then the service is not ready."""

    async def stop(self) -> None:
        """Finish what has begun, and close everything."""

    def unready(self) -> str | None:
        """Return why nothing can be decided now; None if it can."""

    async def create(self, wanted: messages.NewModel) -> tuple[messages.ModelReply, bool]:
        """Make a model; return it, and whether it is new."""

    async def models(self) -> list[messages.ModelReply]:
        """Return all models, by their names."""

    async def model(self, name: str) -> messages.ModelReply:
        """Return one model."""

    async def decide(
        self, name: str, wanted: list[messages.DecisionRequest], repeatable: Repeatable | None
    ) -> list[messages.DecisionReply]:
        """Make all of these decisions, or none; what is returned is on disk. The same request again gets the same."""

    async def feedback(self, name: str, given: list[messages.FeedbackRequest]) -> list[messages.Result | Exception]:
        """Take answers; return for each what became of it. What is returned is on disk."""

    async def cancel(self, name: str, id: str) -> messages.Result:
        """Want no answer to a decision any more."""

    async def decision(self, name: str, id: str) -> messages.DecisionState:
        """Return a decision, and what became of it."""

    async def recent(self, name: str, count: int) -> list[messages.DecisionState]:
        """Return the last decisions, the newest first."""

    async def explain(self, name: str, id: str) -> messages.ExplanationReply:
        """Return why a class looks best for the features of a decision."""

    async def add_class(self, name: str, wanted: messages.NewClass) -> messages.ModelReply:
        """Add a class."""

    async def retire_class(self, name: str, label: Any) -> messages.ModelReply:
        """Let a class not be chosen any more."""

    async def stats(self, name: str) -> messages.StatsReply:
        """Return counts and rates."""

    async def digest(self, name: str) -> messages.DigestReply:
        """Return the hash of all that a model knows."""

    async def weights(self, name: str) -> messages.WeightsReply:
        """Return the weights."""

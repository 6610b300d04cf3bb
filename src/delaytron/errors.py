"""What can go wrong at the edges: every error says what came, what is allowed and what to do."""


class DelaytronError(Exception):
    """Base of every error this package raises on purpose."""


class InvalidInput(DelaytronError, ValueError):  # noqa: N818 - the public surface fixes the name
    """A value that no learner, delay model or data set can use; nothing was changed."""


class MissingLibrary(InvalidInput, ImportError):  # noqa: N818
    """A library that an extra of this package brings, and that is not installed."""


class UnknownDecision(DelaytronError, KeyError):  # noqa: N818
    """Feedback for a decision that this learner never issued."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would print the message in quotes


class ConflictingFeedback(DelaytronError):  # noqa: N818
    """A second answer that contradicts the first one."""


class JournalError(DelaytronError):
    """The journal could not be written or read; what it did not acknowledge is not in it."""

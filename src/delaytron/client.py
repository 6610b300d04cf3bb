"""The decision service from Python, in the habits of `dt.Model`: `dt.Client`, `dt.AsyncClient`, and what they raise.

Both send the same requests. One that got no reply, or the reply that it may work later (408, 429, 502, 503, 504), is
sent again: after what `Retry-After` asks for, and a random wait that grows from try to try. A decision carries an
`Idempotency-Key`, so that it is made once, however often it is sent; an answer counts once by itself. What the service
refuses raises the error that it raised there. All of them are `DelaytronError`s; without any reply it is
`NoConnection`, which is an `Unavailable`, too.
"""

from delaytron.service.client.async_client import AsyncClient, AsyncRemoteModel
from delaytron.service.client.client import Client, RemoteModel
from delaytron.service.client.refusals import NoConnection, UnexpectedReply
from delaytron.service.client.replies import RemoteDecision
from delaytron.service.problems import (
    Conflict,
    ExpiredToken,
    Forbidden,
    ForeignToken,
    ForgedToken,
    Gone,
    ServiceError,
    TooLarge,
    TooMany,
    Unauthorized,
    Unavailable,
    UnknownModel,
)

__all__ = [
    "AsyncClient",
    "AsyncRemoteModel",
    "Client",
    "Conflict",
    "ExpiredToken",
    "Forbidden",
    "ForeignToken",
    "ForgedToken",
    "Gone",
    "NoConnection",
    "RemoteDecision",
    "RemoteModel",
    "ServiceError",
    "TooLarge",
    "TooMany",
    "Unauthorized",
    "Unavailable",
    "UnexpectedReply",
    "UnknownModel",
]

"""Clients of the decision service with the methods of `dt.Model`: `dt.Client`, `dt.AsyncClient`, and their errors.

Both send the same requests. One that got no reply, or a transient status (408, 429, 502, 503, 504), is retried after
the time of `Retry-After` and a random wait that grows from try to try; adding or retiring a class is retried only if
the service cannot have accepted it. A decision carries an `Idempotency-Key`, so that it is made once, however often it
is sent; the same answer twice counts once anyway. An error of the service is raised as the same error with the same
data: `problem`, `hint`, `parameter`, `allowed`, and `value` if it is short. All errors are `DelaytronError`s; without
any reply it is `NoConnection`, which is an `Unavailable`, too.
"""

from delaytron.service.client.client import AsyncClient, AsyncRemoteModel, Client, RemoteModel
from delaytron.service.client.protocol import NoConnection, RemoteDecision, UnexpectedReply
from delaytron.service.problems import (
    Conflict,
    Forbidden,
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
    "Forbidden",
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

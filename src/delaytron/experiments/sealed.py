"""JSON objects that end with a digest of themselves."""

import re
from hashlib import sha256

from delaytron.errors import InvalidInput

TAIL = re.compile(rb',"sha256":"([0-9a-f]{64})"}\n\Z')


def seal(body: bytes) -> bytes:
    """Return a JSON object, not empty, with the digest of its bytes as its last value.

    Examples
    --------
    >>> sealed = seal(b'{"rows":50}')
    >>> sealed[:31]
    b'{"rows":50,"sha256":"159d7b803a'
    >>> check_seal(sealed)
    """
    return body[:-1] + b',"sha256":"' + sha256(body).hexdigest().encode() + b'"}\n'


def check_seal(content: bytes) -> None:
    """Raise if a byte of what `seal` returned has changed."""
    tail = TAIL.search(content)
    if tail is None or sha256(content[: tail.start()] + b"}").hexdigest().encode() != tail.group(1):
        raise InvalidInput("its digest is not that of its content")

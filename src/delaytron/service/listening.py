"""Whether one can listen at an address: told in one line before the service begins."""

import os
import socket
from errno import EADDRINUSE, EADDRNOTAVAIL

from delaytron.errors import InvalidInput

NEXT = {  # what to do, by what is wrong
    EADDRINUSE: "stop what listens there, or give another --port; 0 takes any that is free",
    EADDRNOTAVAIL: "give --host 127.0.0.1, or another address of this machine",
}
OTHERWISE = "give another --host or --port"


def check_free(host: str, port: int) -> None:
    """Raise if nobody can listen there: something else does, it is not this machine, or one may not."""
    refused: OSError | None = None
    for family, kind, protocol, _, address in socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    ):
        try:
            _try(socket.socket(family, kind, protocol), address)
        except OSError as problem:
            refused = refused or problem
    if refused is not None:
        what = f"cannot listen on {host or 'all addresses'}, port {port}: {os.strerror(refused.errno or 0)}"
        raise InvalidInput(f"{what}; {NEXT.get(refused.errno or 0, OTHERWISE)}")


def _try(probe: socket.socket, address: tuple[object, ...]) -> None:
    """Listen for a moment, as the server will."""
    with probe:
        if os.name == "posix":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, True)
        if probe.family == socket.AF_INET6:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, True)
        probe.bind(address)

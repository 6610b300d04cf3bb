"""Whether one can listen at an address: told in one line before the service begins."""

import os
import socket
from errno import EADDRINUSE, EADDRNOTAVAIL, EAFNOSUPPORT

from delaytron.errors import InvalidInput

NEXT = {  # what to do, by what is wrong
    EADDRINUSE: "stop what listens there, or give another --port; 0 takes any that is free",
    EADDRNOTAVAIL: "give --host 127.0.0.1, or another address of this machine",
}
ABSENT = (EADDRNOTAVAIL, EAFNOSUPPORT)  # of an address that this machine does not have
OTHERWISE = "give another --host or --port"


def check_free(host: str, port: int) -> None:
    """Raise if nobody can listen there: something else does, it is not this machine, or one may not."""
    refused: list[OSError] = []
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    for family, kind, protocol, _, address in found:
        try:
            _try(socket.socket(family, kind, protocol), address)
        except OSError as problem:
            refused.append(problem)
    worst = next((problem for problem in refused if problem.errno not in ABSENT), None)
    if worst is not None or len(refused) == len(found):  # where IPv6 is missing, one listens on the others
        number = (worst or refused[0]).errno or 0
        what = f"cannot listen on {host or 'all addresses'}, port {port}: {os.strerror(number)}"
        raise InvalidInput(f"{what}; {NEXT.get(number, OTHERWISE)}")


def _try(probe: socket.socket, address: tuple[object, ...]) -> None:
    """Listen for a moment, as the server will."""
    with probe:
        if os.name == "posix":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, True)
        if probe.family == socket.AF_INET6:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, True)
        probe.bind(address)

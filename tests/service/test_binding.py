"""Without an API key nobody reaches a service from another machine."""

import socket

import pytest

from delaytron import InvalidInput
from delaytron.service import keys as module
from delaytron.service.keys import ApiKeys, check_binding

KEYS = ApiKeys([("client", "0123456789abcdef")])
NO_KEYS = ApiKeys()


def resolve_as(monkeypatch, *addresses):
    def found(host, port, **how):
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in addresses]

    monkeypatch.setattr(module.socket, "getaddrinfo", found)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "127.1", "::1", "::ffff:127.0.0.1", "localhost"])
def test_loopback_needs_no_key(host):
    check_binding(host, NO_KEYS)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "0", "::", "::ffff:0.0.0.0", "192.0.2.1", "128.0.0.1", "2001:db8::1"])
def test_all_else_needs_one(host):
    with pytest.raises(InvalidInput, match="can be reached from other machines, and no API key is set") as caught:
        check_binding(host, NO_KEYS)
    assert "use 127.0.0.1, or set DELAYTRON_ADMIN_KEY or DELAYTRON_CLIENT_KEY" in str(caught.value)
    check_binding(host, KEYS)


def test_a_name_is_what_all_its_addresses_are(monkeypatch):
    resolve_as(monkeypatch, "127.0.0.1", "::1")
    check_binding("here.test", NO_KEYS)
    resolve_as(monkeypatch, "127.0.0.1", "192.0.2.7")
    with pytest.raises(InvalidInput, match=r"host 'here\.test' \(192\.0\.2\.7\) can be reached"):
        check_binding("here.test", NO_KEYS)
    resolve_as(monkeypatch, "fe80::1%eth0")
    with pytest.raises(InvalidInput, match=r"\(fe80::1\) can be reached"):
        check_binding("here.test", NO_KEYS)


def test_a_name_that_is_not_known_is_refused(monkeypatch):
    with pytest.raises(InvalidInput, match="is not known on this machine"):
        check_binding("a" * 70 + ".test", NO_KEYS)
    with pytest.raises(InvalidInput, match="is not known on this machine"):
        check_binding("nul\0.test", NO_KEYS)
    resolve_as(monkeypatch)
    with pytest.raises(InvalidInput, match=r"host 'nowhere\.test' is not known on this machine; use 127\.0\.0\.1"):
        check_binding("nowhere.test", NO_KEYS)

"""API keys and their scopes, where keys come from, and which addresses need one."""

import hmac
import socket
import sys
from traceback import format_exception
from types import SimpleNamespace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from delaytron import InvalidInput
from delaytron.service import security as module
from delaytron.service.problems import Forbidden, Unauthorized, headers_of, problem_of
from delaytron.service.security import ApiKeys, check_binding, read_api_keys

ADMIN, CLIENT, OTHER = "admin-0123456789", "client-0123456789", "other-0123456789"
KEYS = ApiKeys([("admin", ADMIN), ("client", CLIENT), ("client", OTHER)])
NO_KEYS = ApiKeys()
key_texts = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=16, max_size=40)


@pytest.fixture
def file(tmp_path):
    def written(text, mode=0o600):
        path = tmp_path / "api.keys"
        path.write_text(text)
        path.chmod(mode)
        return path

    return written


@given(st.lists(st.tuples(st.sampled_from(["admin", "client"]), key_texts), unique_by=lambda key: key[1], min_size=1))
def test_every_key_has_its_scope(known):
    keys = ApiKeys(known)
    assert len(keys) == len(known)
    for scope, key in known:
        assert keys.scope_of(f"Bearer {key}") == scope


@given(st.text())
def test_unknown_keys_have_no_scope(text):
    assume(text.strip(" ") not in (ADMIN, CLIENT, OTHER))
    assert KEYS.scope_of(f"Bearer {text}") is None
    assert KEYS.scope_of(text) is None


@pytest.mark.parametrize("scheme", ["Bearer ", "bearer ", "BEARER ", "Bearer   "])
def test_case_and_spaces_of_the_scheme_do_not_matter(scheme):
    assert KEYS.scope_of(f"{scheme}{ADMIN}") == "admin"
    assert KEYS.scope_of(f"{scheme}{ADMIN} ") == "admin"


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        " ",
        "Bearer",
        "Bearer ",
        ADMIN,
        f"Basic {ADMIN}",
        f"Bearer{ADMIN}",
        f" Bearer {ADMIN}",
        f"Bearer {ADMIN[:-1]}",
        f"Bearer {ADMIN}0",
        f"Bearer {ADMIN.upper()}",
        f"Bearer {ADMIN},{CLIENT}",
        f"Bearer {ADMIN} {CLIENT}",
        f"Bearer {ADMIN}\0",
        f"Bearer\t{ADMIN}",
        "Bearer \ud800",
        "Bearer " + "a" * 100_000,
    ],
)
def test_a_request_without_a_known_key_is_unauthorized(header):
    assert KEYS.scope_of(header) is None
    for scope in ("admin", "client"):
        with pytest.raises(Unauthorized, match="send one as Authorization: Bearer KEY, in Python by key=KEY") as caught:
            KEYS.require(header, scope)
        assert problem_of(caught.value).status == 401
        assert headers_of(caught.value) == {"WWW-Authenticate": "Bearer"}
        assert ADMIN[6:] not in str(caught.value)


def test_an_admin_may_do_everything_and_a_client_may_not():
    for scope in ("admin", "client"):
        KEYS.require(f"Bearer {ADMIN}", scope)
    KEYS.require(f"Bearer {CLIENT}", "client")
    with pytest.raises(Forbidden, match="this needs an admin key") as caught:
        KEYS.require(f"Bearer {CLIENT}", "admin")
    assert problem_of(caught.value).status == 403


@pytest.mark.parametrize("header", [None, "", "Bearer x", f"Bearer {ADMIN}"])
def test_without_keys_everything_is_allowed(header):
    assert len(NO_KEYS) == 0
    NO_KEYS.require(header, "admin")
    NO_KEYS.require(header, "client")


@pytest.mark.parametrize("header", [None, "x", *(f"Bearer {key}" for key in (ADMIN, CLIENT, OTHER, ADMIN[:-1], "x"))])
def test_every_request_is_compared_with_all_keys_as_hashes(monkeypatch, header):
    compared = []

    def compare(given, known):
        compared.append((given, known))
        return hmac.compare_digest(given, known)

    monkeypatch.setattr(module, "hmac", SimpleNamespace(digest=hmac.digest, compare_digest=compare))
    KEYS.scope_of(header)
    assert len(compared) == 3
    assert len({known for _, known in compared}) == 3
    assert {len(text) for pair in compared for text in pair} == {32}
    assert ADMIN.encode() not in b"".join(text for pair in compared for text in pair)


def test_the_hashes_are_of_this_process_only():
    first, second = (list(ApiKeys([("admin", ADMIN)])._scopes) for _ in range(2))
    assert first != second


@pytest.mark.parametrize("key", ["", "a" * 15, "a" * 1_001, "a b" * 10, "é" * 20, "a" * 20 + "\n", "a" * 20 + "\0"])
def test_keys_that_cannot_be_used_are_refused_and_not_shown(key):
    with pytest.raises(InvalidInput, match="an API key must") as caught:
        ApiKeys([("admin", key)])
    assert not key or key not in str(caught.value)


def test_keys_of_the_shortest_and_the_longest_length_are_valid():
    keys = ApiKeys([("admin", "a" * 16), ("client", "b" * 1_000)])
    assert keys.scope_of("Bearer " + "a" * 16) == "admin"
    assert keys.scope_of("Bearer " + "b" * 1_000) == "client"
    assert keys.scope_of("Bearer " + "b" * 1_001) is None


def test_a_key_has_one_scope():
    assert len(ApiKeys([("admin", ADMIN), ("admin", ADMIN)])) == 1
    with pytest.raises(InvalidInput, match="a key must have one scope") as caught:
        ApiKeys([("admin", ADMIN), ("client", ADMIN)])
    assert ADMIN not in str(caught.value)


def test_keys_come_from_the_environment_and_from_a_file(file):
    path = file(f"# who may\n\nadmin {ADMIN}\n  client\t{OTHER}#1 \r\n")
    keys = read_api_keys(path, {"DELAYTRON_CLIENT_KEY": CLIENT})
    assert repr(keys) == "ApiKeys(1 admin, 2 client)"
    assert [keys.scope_of(f"Bearer {key}") for key in (ADMIN, CLIENT, f"{OTHER}#1", OTHER)] == [
        "admin",
        "client",
        "client",
        None,
    ]
    assert len(read_api_keys(environment={})) == 0
    both = read_api_keys(environment={"DELAYTRON_ADMIN_KEY": ADMIN, "DELAYTRON_CLIENT_KEY": CLIENT})
    assert both.scope_of(f"Bearer {ADMIN}") == "admin"


def test_the_environment_is_that_of_the_process(monkeypatch):
    monkeypatch.setenv("DELAYTRON_ADMIN_KEY", ADMIN)
    monkeypatch.delenv("DELAYTRON_CLIENT_KEY", raising=False)
    assert repr(read_api_keys()) == "ApiKeys(1 admin, 0 client)"


@pytest.mark.parametrize("value", ["", "secret-too-shrt"])
def test_a_variable_without_a_valid_key_is_refused(value):
    with pytest.raises(
        InvalidInput, match=r"^DELAYTRON_ADMIN_KEY: an API key must have 16 to 1,000 characters"
    ) as caught:
        read_api_keys(environment={"DELAYTRON_ADMIN_KEY": value})
    assert not value or value not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no key; write lines SCOPE KEY"),
        ("# none\n", "has no key; write lines SCOPE KEY"),
        (f"{ADMIN}\n", "line 1: must be SCOPE KEY, two words; got 1"),
        (f"admin {ADMIN} {CLIENT}\n", "line 1: must be SCOPE KEY, two words; got 3"),
        (f"\n{ADMIN} admin\n", "line 2: must begin with admin or client"),
        (f"Admin {ADMIN}\n", "line 1: must begin with admin or client"),
        (f"client {ADMIN[:15]}\n", "line 1: an API key must have 16 to 1,000 characters, got 15"),
        (f"client {ADMIN}é\n", "line 1: an API key must be ASCII"),
    ],
)
def test_an_error_in_a_file_is_one_line_without_the_key(file, text, message):
    with pytest.raises(InvalidInput, match=r"api\.keys") as caught:
        read_api_keys(file(text), {})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert ADMIN[:15] not in "".join(format_exception(caught.value))


@pytest.mark.skipif(sys.platform == "win32", reason="rights of POSIX")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660])
def test_a_file_that_others_may_read_is_refused(file, mode):
    with pytest.raises(InvalidInput, match=r"run chmod 600 .*api\.keys$"):
        read_api_keys(file(f"admin {ADMIN}\n", mode), {})


def test_no_key_is_ever_shown():
    for text in (repr(KEYS), str(KEYS)):
        assert text == "ApiKeys(1 admin, 2 client)"


# The address to listen on


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
def test_other_addresses_need_a_key(host):
    with pytest.raises(InvalidInput, match="can be reached from other machines, and no API key is set") as caught:
        check_binding(host, NO_KEYS)
    assert "use 127.0.0.1, or set DELAYTRON_ADMIN_KEY or DELAYTRON_CLIENT_KEY" in str(caught.value)
    check_binding(host, KEYS)


def test_a_host_name_needs_a_key_if_one_of_its_addresses_does(monkeypatch):
    resolve_as(monkeypatch, "127.0.0.1", "::1")
    check_binding("here.test", NO_KEYS)
    resolve_as(monkeypatch, "127.0.0.1", "192.0.2.7")
    with pytest.raises(InvalidInput, match=r"host 'here\.test' \(192\.0\.2\.7\) can be reached"):
        check_binding("here.test", NO_KEYS)
    resolve_as(monkeypatch, "fe80::1%eth0")
    with pytest.raises(InvalidInput, match=r"\(fe80::1\) can be reached"):
        check_binding("here.test", NO_KEYS)


def test_an_unknown_host_is_refused(monkeypatch):
    with pytest.raises(InvalidInput, match="is not known on this machine"):
        check_binding("a" * 70 + ".test", NO_KEYS)
    with pytest.raises(InvalidInput, match="is not known on this machine"):
        check_binding("nul\0.test", NO_KEYS)
    resolve_as(monkeypatch)
    with pytest.raises(InvalidInput, match=r"host 'nowhere\.test' is not known on this machine; use 127\.0\.0\.1"):
        check_binding("nowhere.test", NO_KEYS)

"""The client with a real service: all requests, and their errors."""

import asyncio
import inspect
import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import numpy as np
import pytest

import delaytron as dt
from delaytron import client as errors
from delaytron.model.verify import compact_journal
from service_fixtures import ADMIN_KEY, CLIENT_KEY
from services import serving

LABELS = ["small", "medium", "large"]
CYCLIC = []
CYCLIC.append(CYCLIC)


@pytest.fixture
def client(shop):
    with dt.Client(shop.url) as made:
        yield made


@pytest.fixture
def model(client, request):
    return client.create_model(request.node.name[:64].split("[")[0], LABELS, seed=1)


def test_a_decision_and_its_answers(model):
    decision = model.decide({"prompt": "Translate this", "tokens": 512}, id="req/17 é")
    assert decision == ("req/17 é", decision.label, pytest.approx(1 / 3), 1)
    assert decision.label in LABELS
    assert model.decision("req/17 é").status == "open"
    assert model.feedback("req/17 é", correct=True) == "accepted"
    assert model.feedback("req/17 é", correct=True) == "duplicate"
    with pytest.raises(dt.ConflictingFeedback, match="a second answer must agree"):
        model.feedback("req/17 é", correct=False)
    state = model.decision("req/17 é")
    assert (state.status, state.value, state.label, state.round) == ("answered", 1.0, decision.label, 1)


@pytest.mark.parametrize("name", [".", "..", "a/../b", "%2E", "?x=1#y", " ", "+", "\\", "é\u2028"])
def test_any_id_finds_its_decision(model, name):
    model.decide({"n": 1}, id=name)
    assert model.decision(name).id == name
    assert model.explain(name).label in LABELS
    assert model.cancel(name) == "cancelled"
    assert model.cancel(name) == "duplicate"
    assert model.feedback(name, reward=1) == "cancelled"
    with pytest.raises(dt.ConflictingDecision, match="issued before"):
        model.decide({"n": 2}, id=name)


def test_the_same_id_with_the_same_input_returns_the_stored_decision(model):
    first = model.decide({"n": 1}, id="a", allowed=["small", "large"])
    other = model.decide({"n": 1})
    assert model.decide({"n": 1}, id="a", allowed=["small", "large"]) == first
    assert model.feedback("a", correct=True) == "accepted"
    again, new = model.decide_many([{"n": 1}] * 2, ids=["a", "b"], allowed=["small", "large"])
    assert again == first
    assert new.round == other.round + 1
    for changed in ({"features": {"n": 2}, "allowed": ["small", "large"]}, {"features": {"n": 1}}):
        with pytest.raises(dt.ConflictingDecision, match="'a' was issued before, for other features or classes"):
            model.decide(id="a", **changed)
    assert model.stats().decisions == 3


def test_decisions_and_scores_equal_those_of_a_local_model(model):
    twin = dt.Model(classes=LABELS, seed=1)
    for number in range(60):
        x = {"kind": ["chat", "code"][number % 2], "hour": np.float32(number % 24), "n": number / 7}
        allowed = None if number % 5 else ["small", "large"]
        made, own = (one.decide(x, id=f"req-{number}", allowed=allowed) for one in (model, twin))
        assert (made.label, made.prob, made.round) == (own.label, own.prob, own.round)
        model.feedback(made.id, reward=(number % 4) / 3)
        twin.feedback(own.id, reward=(number % 4) / 3)
    shared = twin.explain({"kind": "code", "hour": np.float32(59 % 24), "n": 59 / 7})
    assert model.explain("req-59").scores == shared.scores
    assert model.stats().accuracy.mean == twin.stats().mean_reward


def test_vectors_and_sparse_rows_decide_as_in_a_local_model(client):
    from scipy import sparse

    model = client.create_model("vectors", [0, 1, 2], features=4, seed=1, learner="delaytron", gamma=0.25)
    twin = dt.Model([0, 1, 2], features=4, seed=1, learner="delaytron", gamma=0.25)
    assert model.describe().parameters == {"gamma": 0.25}
    rows = [[1, 2, 3, 4], np.array([0.0, 0, 2.5, 0]), sparse.csr_array([[0, 0, 2.5, 0]]), sparse.csr_matrix((1, 4))]
    for row in rows:
        made, own = model.decide(row), twin.decide(row)
        assert (made.label, made.prob) == (own.label, own.prob)
        assert model.feedback(made.id, correct=np.bool_(made.label == 1)) == "accepted"
        twin.feedback(own.id, correct=bool(own.label == 1))
    batch = sparse.csr_array(np.arange(12.0).reshape(3, 4))
    ids = ["a", "b", "c"]
    made, own = model.decide_many(batch, ids=ids), twin.decide_many(batch.toarray(), ids=ids)
    assert [(d.id, d.label, d.prob) for d in made] == [(d.id, d.label, d.prob) for d in own]
    assert model.weights().weights == twin._engine.state.learner.weights.tolist()
    explained = model.explain("c")
    assert explained.scores.keys() == {0, 1, 2} == explained.constant.keys()
    assert explained.scores[explained.label] == max(explained.scores.values())


@pytest.mark.parametrize(
    ("x", "said"),
    [
        ({"n": float("inf")}, "feature 'n' must be finite, got inf"),
        ({"n": object()}, "feature 'n' must be a number"),
        ({1: 2}, "names of features must be strings"),
        ({"a": "\ud800"}, "valid Unicode"),
        ([1.0, float("nan")], "x must be finite, got nan at position 1"),
        (np.zeros((2, 2)), "1-D"),
        ("text", "must be a dict"),
        (None, "must be a dict"),
        ({"a": CYCLIC}, "at most 16 dicts or lists within one another"),
        (CYCLIC, "at most 16 dicts or lists within one another"),
        ([[0, float("nan")]], "x must be finite, got nan at position 1"),
    ],
)
def test_bad_features_are_not_sent(x, said):
    with dt.Client("http://127.0.0.1:9", retries=0) as nowhere, pytest.raises(dt.InvalidInput, match=said):
        nowhere.model("router").decide(x)


NOT_SENT = {
    "xs must be a list, one for each decision, got None": lambda model: model.decide_many(None),
    "xs must be a list, one for each decision, got {'n': 1}": lambda model: model.decide_many({"n": 1}),
    r"xs\[1\]: feature 'n' must be": lambda model: model.decide_many([{"n": 1}, {"n": object()}]),
    "ids must be a list, one for each decision, got 'x'": lambda model: model.decide_many([{"n": 1}], ids="x"),
    "named by a printable text .* got 1.5": lambda model: model.decide({"n": 1}, allowed=[1.5]),
    "correct must be True or False, got 'yes'": lambda model: model.feedback("a", "yes"),
    "id must be a string of 1 to 200 bytes, got int '5'": lambda model: model.feedback(5, True),
    r"reward must be from 0 \(wrong\) to 1 \(right\), got 2": lambda model: model.feedback("a", reward=2),
    "reward must be a finite number, got .*nan": lambda model: model.feedback("a", reward=np.float32("nan")),
    r"named by a printable text .* got b'\w'": lambda model: model.feedback("a", label=b"a"),
    "answers must be a list, .* got {'id': 'a'}": lambda model: model.feedback_many({"id": "a"}),
    "answers must be dicts such as .* got 'a'": lambda model: model.feedback_many(["a"]),
    "named by a printable text .* got None": lambda model: model.retire_class(None),
    r"named by a printable text .* got '\\ud800'": lambda model: model.retire_class("\ud800"),
    "classes must be a list of names, .* got 'ab'": lambda model: model._client.create_model("m", "ab"),
    "classes must be a list of names, .* got None": lambda model: model._client.create_model("m", None),
    r"named by a printable text .* got b'a'": lambda model: model._client.create_model("m", [b"a", b"b"]),
    "parameters must be a dict, .* got None": lambda model: model._client.create_model("m", [1, 2], parameters=None),
    "gamma must be a finite number, got nan": lambda model: model._client.create_model("m", [1, 2], gamma=math.nan),
    "must not be nested so deeply": lambda model: model._client.create_model("m", [1, 2], lr=CYCLIC),
}


@pytest.mark.parametrize("said", NOT_SENT)
def test_invalid_arguments_are_not_sent(said):
    with dt.Client("http://127.0.0.1:9", retries=0) as nowhere, pytest.raises(dt.InvalidInput, match=said):
        NOT_SENT[said](nowhere.model("router"))


def test_a_closed_client_raises(shop):
    with dt.Client(shop.url) as client:
        model = client.model("router")
    with pytest.raises(dt.InvalidInput, match="this client is closed; make another one"):
        model.stats()

    async def ask():
        async with dt.AsyncClient(shop.url) as client:
            pass
        await client.models()

    with pytest.raises(dt.InvalidInput, match="this client is closed; make another one"):
        asyncio.run(ask())


def test_the_error_says_if_the_service_does_not_speak_tls(shop):
    said = "it does not speak TLS, use http:// instead of https://"
    with (
        dt.Client(shop.url.replace("http", "https"), retries=0) as client,
        pytest.raises(errors.NoConnection) as caught,
    ):
        client.models()
    assert said in str(caught.value)


def test_a_password_in_the_url_is_not_shown():
    with dt.Client("http://shop:secret@127.0.0.1:9", retries=0) as client, pytest.raises(errors.NoConnection) as caught:
        client.models()
    assert "http://...@127.0.0.1:9" in str(caught.value)
    with pytest.raises(dt.InvalidInput) as refused:
        dt.Client("http://shop:secret@127.0.0.1:99999")
    shown = [repr(client), repr(client.model("m")), str(caught.value), str(refused.value)]
    assert not any("secret" in text for text in shown)


def test_values_of_numpy_and_containers_are_sent(model):
    x = {
        "a": np.int64(3),
        "b": np.bool_(True),
        "c": float("nan"),
        "d": ("x", "y"),
        "e": {"f": np.str_("z")},
        "g": {"w"},
    }
    model.decide(x, id="odd")
    names = {"a", "b", "d=x", "d=y", "e.f=z", "g=w"}
    assert model.explain("odd").features.keys() == names


def test_all_decisions_of_a_batch_are_made_or_none(model):
    with pytest.raises(dt.InvalidInput, match="ids must be one for each of the 2 xs, got 1"):
        model.decide_many([{"n": 1}, {"n": 2}], ids=["a"])
    with pytest.raises(dt.InvalidInput, match="all be different"):
        model.decide_many([{"n": 1}, {"n": 2}], ids=["a", "a"])
    assert model.stats().decisions == 0
    made = model.decide_many(({"n": n} for n in range(3)), ids=["a", "b", "c"], allowed=iter(["large"]))
    assert [(d.id, d.label, d.prob, d.round) for d in made] == [(i, "large", 1, n) for n, i in enumerate("abc", 1)]
    assert [state.id for state in model.recent()] == ["c", "b", "a"]


def test_many_answers_each_have_their_own_result(model):
    model.decide_many([{"n": 1}] * 4, ids=["a", "b", "c", "d"])
    model.cancel("d")
    said = model.feedback_many(
        [
            {"id": "a", "correct": True},
            {"id": "a", "reward": 1.0},
            {"id": "a", "reward": 0.5},
            {"id": "b", "label": "small"},
            {"id": "no", "correct": True},
            {"id": "c"},
            {"id": "d", "correct": True},
        ]
    )
    assert [*said[:2], said[3], said[6]] == ["accepted", "duplicate", "accepted", "cancelled"]
    kinds = [dt.ConflictingFeedback, dt.UnknownDecision, dt.InvalidInput]
    assert [type(said[place]) for place in (2, 4, 5)] == kinds
    assert str(said[4]) == "decision 'no' was never issued; check the id, and that this is its journal"
    with pytest.raises(dt.InvalidInput, match="reward must be a finite number, got nan"):
        model.feedback_many([{"id": "c", "correct": True}, {"id": "b", "reward": float("nan")}])
    assert model.stats().answered == 2


@pytest.mark.parametrize(("policy", "word"), [("wrong", "corrected"), ("drop", "late")])
def test_answers_after_an_expiry_are_corrections_or_late(client, policy, word):
    model = client.create_model(f"late-{policy}", LABELS, expire_after=1, on_expiry=policy, seed=1)
    model.decide_many([{"n": 1}] * 2, ids=["first", "second"])
    assert model.feedback("first", correct=True) == word
    assert model.feedback("first", correct=True) == "duplicate"
    with pytest.raises(dt.ConflictingFeedback):
        model.feedback("first", correct=False)


def test_answers_after_the_release_are_late(client):
    model = client.create_model("released-late", LABELS, expire_after=1, on_expiry="wrong", correct_within=2, seed=1)
    assert model.describe().correct_within == 2
    ids = ["first", "second", "third", "fourth"]
    model.decide_many([{"n": 1}] * 4, ids=ids)
    answers = [{"id": one, "correct": True} for one in ids]
    assert model.feedback_many(answers) == ["late", "corrected", "corrected", "accepted"]
    assert model.feedback_many(answers) == ["duplicate"] * 4
    assert (model.decision("first").status, model.decision("second").status) == ("expired", "answered")
    days = client.create_model(
        "days",
        LABELS,
        expire_after=timedelta(days=1),
        on_expiry="wrong",
        correct_within=timedelta(days=2),
        bits=8,
        seed=1,
    )
    assert days.describe().correct_within == "172800s"


def test_classes_are_added_and_retired(client):
    model = client.create_model("classes", [1, 2], seed=1)
    model.add_class(3)
    model.retire_class(1)
    assert model.describe().classes == [2, 3]
    with pytest.raises(dt.InvalidInput, match="already"):
        model.add_class(3)
    with pytest.raises(dt.InvalidInput, match="there is no class"):
        model.retire_class(7)
    model.add_class("a/b")
    model.retire_class("a/b")
    assert model.describe().classes == [2, 3]


def test_a_model_is_created_once(client):
    options = {"expire_after": timedelta(hours=6), "on_expiry": "wrong", "bits": 10, "parameters": {"lr": 0.5}}
    client.create_model("same", LABELS, **options)
    again = client.create_model("same", LABELS, **options)
    assert again.describe().expire_after == "21600s"
    with pytest.raises(errors.Conflict, match="was made with classes"):
        client.create_model("same", ["a", "b"])
    assert "same" in [model.name for model in client.models()]
    with pytest.raises(dt.InvalidInput, match="lerner"):
        client.create_model("new", LABELS, lerner="delaytron")
    assert repr(again) == f"RemoteModel('same' at {client._settings.url})"


def test_unknown_models_and_ids_raise(client, model):
    with pytest.raises(errors.UnknownModel, match="there is no model 'rooter'"):
        client.model("rooter").decide({"n": 1})
    for ask in (model.decision, model.explain, model.cancel, lambda name: model.feedback(name, True)):
        with pytest.raises(dt.UnknownDecision, match="'req-1' was never issued"):
            ask("req-1")
    with pytest.raises(dt.InvalidInput, match="a model is named by"):
        client.model("../secret")


def test_too_large_bodies(model):
    with pytest.raises(errors.TooLarge, match="1,000,000 bytes"):
        model.decide({"text": "x" * 1_000_001})
    with pytest.raises(errors.TooLarge, match="1,000 entries at most, got 1,001"):
        model.decide_many([{"n": 1}] * 1001)


def test_replies_of_another_server_raise_unexpected_reply(shop):
    said = "nothing at /elsewhere/v1/models"
    with dt.Client(f"{shop.url}/elsewhere") as lost, pytest.raises(errors.UnexpectedReply, match=said):
        lost.models()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"url": "127.0.0.1:8100"}, "url must be as in http"),
        ({"url": "ftp://a"}, "url must be as in http"),
        ({"url": "http://a:99999"}, "url must be as in http"),
        ({"url": 8100}, "url must be as in http"),
        ({"url": "http://a\n"}, "url must be as in http"),
        ({"url": "http://a b"}, "url must be as in http"),
        ({"url": "http://a#"}, "url must be as in http"),
        ({"url": "http://a?"}, "url must be as in http"),
        ({"url": "http://" + "a" * 100}, "url must be as in http"),
        ({"timeout": 1e300}, "timeout must be 1,000,000,000 seconds at most"),
        ({"key": ""}, "key must be ASCII without spaces, as the service has it; None if it has no keys"),
        ({"timeout": 0}, "timeout"),
        ({"retries": -1}, "retries"),
        ({"key": "a\nb"}, "key must be"),
    ],
)
def test_bad_settings(arguments, said):
    for kind in (dt.Client, dt.AsyncClient):
        with pytest.raises(dt.InvalidInput, match=said):
            kind(**arguments)


def test_keys_and_limits(guarded):
    with dt.Client(guarded.url, ADMIN_KEY) as admin, dt.Client(guarded.url, CLIENT_KEY, retries=0) as client:
        assert ADMIN_KEY not in repr(admin)
        admin.create_model("router", LABELS)
        router = client.model("router")
        router.decide_many([{"n": 1}] * 3)
        with pytest.raises(errors.TooMany, match="3 decisions wait"):
            router.decide({"n": 1})
        for forbidden in (lambda: client.create_model("b", LABELS), lambda: router.add_class("x")):
            with pytest.raises(errors.Forbidden, match="needs an admin key"):
                forbidden()
    for key, said in ((None, "no API key"), ("wrong-key-wrong-key", "no API key that is known")):
        with dt.Client(guarded.url, key) as stranger, pytest.raises(errors.Unauthorized, match=said):
            stranger.models()


def test_an_answer_after_a_purge_raises_gone(tmp_path):
    with serving(tmp_path) as first, dt.Client(first.url) as client:
        model = client.create_model("old", LABELS, bits=8)
        model.decide({"n": 1}, id="a")
        model.feedback("a", correct=True)
        first.stop()
    (tmp_path / "broken.db").write_text("this is no journal")
    compact_journal(tmp_path / "old.db", "0.000001s")
    with serving(tmp_path) as second, dt.Client(second.url, retries=0) as client:
        model = client.model("old")
        assert model.decision("a").purged
        for late in (lambda: model.feedback("a", correct=True), lambda: model.explain("a")):
            with pytest.raises(errors.Gone, match="purged") as gone:
                late()
            assert gone.value.status == 410
        with pytest.raises(errors.Unavailable, match=r"'broken' cannot be served: broken\.db is not"):
            client.model("broken").decide({"n": 1})


def wrong_calls():
    """Return calls that a model refuses, by their names."""
    return {
        "class": lambda model: model.decide({"n": 1}, allowed=["smal"]),
        "features": lambda model: model.decide([1.0]),
        "value": lambda model: model.decide({"n": [1, "x"]}),
        "unknown": lambda model: model.feedback("never", correct=True),
        "nothing": lambda model: model.feedback("one"),
        "label": lambda model: model.feedback("one", label="smal"),
        "conflict": lambda model: model.feedback("one", correct=False),
        "cancelled": lambda model: model.cancel("one"),
        "other input": lambda model: model.decide({"n": 2}, id="one"),
        "same class": lambda model: model.add_class("small"),
        "no class": lambda model: model.retire_class("tiny"),
    }


@pytest.mark.parametrize("wrong", wrong_calls())
def test_errors_equal_those_of_a_local_model(client, wrong):
    call = wrong_calls()[wrong]
    caught_errors = []
    for model in (dt.Model(LABELS, seed=1), client.create_model("wrong-calls", LABELS, seed=1)):
        model.decide({"n": 1}, id="one")
        model.feedback("one", correct=True)
        with pytest.raises(dt.DelaytronError) as caught:
            call(model)
        caught_errors.append(caught.value)
    own, remote = caught_errors
    assert type(remote) is type(own)
    assert str(remote) == str(own)
    assert (remote.problem, remote.hint) == (own.problem, own.hint)
    assert (remote.parameter, remote.allowed) == (own.parameter, own.allowed)
    assert remote.value == (own.value if isinstance(own.value, str | int | float) else None)


def test_threads_share_a_client(model):
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda n: model.decide({"n": n}), range(80)))
    assert sorted(decision.round for decision in made) == list(range(1, 81))


def test_the_async_client_has_the_same_results(shop):
    async def play():
        async with dt.AsyncClient(shop.url) as client:
            model = await client.create_model("async", LABELS, seed=1)
            made = [await model.decide({"n": 1}, id="a"), *await model.decide_many([{"n": 2}] * 3, ids=["b", "c", "d"])]
            assert [decision.id for decision in made] == ["a", "b", "c", "d"]
            assert await model.feedback("a", correct=True) == "accepted"
            assert await model.feedback_many([{"id": "a", "correct": True}]) == ["duplicate"]
            assert await model.cancel("b") == "cancelled"
            assert (await model.decision("b")).status == "cancelled"
            assert [state.id for state in await model.recent()] == ["d", "c", "b", "a"]
            assert (await model.explain("c")).label in LABELS
            await model.add_class("huge")
            await model.retire_class("small")
            assert (await model.describe()).classes == ["medium", "large", "huge"]
            assert (await model.stats()).answered == 1
            assert len(await model.digest()) == 64
            assert (await model.weights()).classes == [*LABELS, "huge"]
            assert "async" in [known.name for known in await client.models()]
            with pytest.raises(dt.UnknownDecision):
                await model.decision("z")
            assert repr(model) == f"AsyncRemoteModel('async' at {shop.url})"
            assert repr(client) == f"AsyncClient('{shop.url}')"

    asyncio.run(play())


@pytest.mark.parametrize(("first", "second"), [("Client", "AsyncClient"), ("RemoteModel", "AsyncRemoteModel")])
def test_both_clients_have_the_same_methods(first, second):
    def methods(kind):
        own = {name: f for name, f in vars(kind).items() if inspect.isfunction(f) and not name.startswith("_")}
        return {name: [*inspect.signature(function).parameters.values()] for name, function in own.items()}

    assert methods(getattr(errors, first)) == methods(getattr(errors, second))


def test_both_clients_have_the_same_parameters():
    assert inspect.signature(dt.Client) == inspect.signature(dt.AsyncClient)


def test_httpx_is_imported_when_a_client_is_made():
    code = """
import sys, delaytron as dt
dt.Client, dt.AsyncClient
assert "httpx" not in sys.modules
sys.modules["httpx"] = None
for kind in (dt.Client, dt.AsyncClient):
    try:
        kind()
    except dt.InvalidInput as problem:
        print(problem)
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["a client needs httpx; pip install 'delaytron[client]'"] * 2

"""Errors carry data: every one has a hint, each interface spells settings in its own way, and they can be pickled."""

import ast
import pickle
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

import delaytron as dt
from delaytron import errors
from delaytron.cli import app
from delaytron.cli.options import option_spelling
from delaytron.errors import InvalidInput, Setting, spelled
from delaytron.journal.database import DamagedFact
from delaytron.journal.store import BusyError

SOURCE = Path(dt.__file__).parent


TREES = {path.relative_to(SOURCE): ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}


def name_of(node):
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None)


def error_names():
    """Return the names of `DelaytronError` and of all classes that are derived from it, in whichever file."""
    classes = [node for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    names, n_before = {"DelaytronError"}, 0
    while len(names) > n_before:
        n_before = len(names)
        names.update(cls.name for cls in classes if names.intersection(map(name_of, cls.bases)))
    return names


ERRORS = error_names()


def has_hint(call):
    """Whether a call gives a hint that is not the empty text."""
    hints = [*call.args[1:2], *(keyword.value for keyword in call.keywords if keyword.arg in ("hint", None))]
    starred = any(isinstance(argument, ast.Starred) for argument in call.args)
    return starred or any(not (isinstance(hint, ast.Constant) and not hint.value) for hint in hints)


@pytest.mark.parametrize("package", sorted({path.parts[0] for path in TREES}))
def test_every_error_is_constructed_with_a_hint(package):
    calls = [
        (path, node)
        for path, tree in TREES.items()
        if path.parts[0] == package
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and name_of(node.func) in ERRORS
    ]
    assert [f"{path}:{call.lineno}" for path, call in calls if not has_hint(call)] == []


def test_the_errors_of_all_packages_are_found():
    assert {"InvalidInput", "MissingLibrary", "DamagedFact", "Unavailable", "UnexpectedReply"} <= ERRORS


@pytest.mark.parametrize("arguments", [("a problem",), ("a problem", ""), ("a problem", ())])
def test_an_error_without_a_hint_cannot_be_constructed(arguments):
    with pytest.raises(TypeError):
        InvalidInput(*arguments)


def test_what_is_allowed_is_the_hint_about_a_value():
    error = InvalidInput.of("gamma", "in (0, 1]", 2)
    assert str(error) == "gamma must be in (0, 1], got 2"
    assert (error.parameter, error.value, error.allowed, error.hint) == ("gamma", 2, "in (0, 1]", "in (0, 1]")
    assert InvalidInput.of("gamma", "in (0, 1]", 2, "try 0.1").hint == "try 0.1"


def test_a_place_goes_in_front_and_the_data_stay():
    error = InvalidInput.of("label", "a column", "c", ("pass another ", Setting("label"))).at("iris.csv, line 1")
    assert str(error) == "iris.csv, line 1: label must be a column, got 'c'; pass another label"
    assert error.spelled(lambda setting: f"--{setting.name}").count("--label") == 2
    assert (error.parameter, error.value, error.allowed) == ("label", "c", "a column")
    assert str(InvalidInput("it is empty", "fill it").at("a.csv")) == "a.csv: it is empty; fill it"


@pytest.mark.parametrize(
    "cls", [*(getattr(errors, name) for name in sorted(ERRORS & set(vars(errors)))), DamagedFact, BusyError]
)
def test_every_error_survives_a_process_pool(cls):
    hint = ("give ", Setting("seed", "1"))
    for error in (cls("a problem", hint, parameter="seed"), cls.of("seed", "an integer", object(), verb="be")):
        again = pickle.loads(pickle.dumps(error))  # noqa: S301
        assert type(again) is cls
        assert (str(again), again.hint) == (str(error), error.hint)
        assert (again.parameter, again.allowed) == (error.parameter, error.allowed)
        assert again.spelled(lambda setting: f"--{setting.name}") == error.spelled(lambda setting: f"--{setting.name}")


@given(st.lists(st.text(max_size=5) | st.builds(Setting, st.just("seed"), st.text(max_size=3)), max_size=5))
def test_a_spelling_changes_settings_and_nothing_else(parts):
    expected = "".join(part if isinstance(part, str) else "<>" for part in parts)
    assert spelled(tuple(parts), lambda _: "<>") == expected


COMMANDS = typer.main.get_command(app).commands


@pytest.mark.parametrize(
    ("command", "setting", "expected"),
    [
        ("run", Setting("expire_after", "n"), "--expire-after n"),
        ("run", Setting("expire_after"), "--expire-after"),
        ("run", Setting("n_samples", "10"), "--samples 10"),
        ("run", Setting("features", "'pixels'"), "--input pixels"),
        ("bounds", Setting("n_classes"), "--classes"),
        ("run", Setting("on_expiry", "'wrong'"), "--on-expiry wrong"),
        ("run", Setting("label", "'the kind'"), "--label 'the kind'"),
        ("run", Setting("noise", "(0.1, 0.2)"), "--noise 0.1,0.2"),
        ("run", Setting("drop", "['a', 'b']"), "--drop a,b"),
        ("import", Setting("classes", "[...]"), "--classes ..."),
        ("run", Setting("shuffle", "True"), "--shuffle"),
        ("run", Setting("header", "False"), "--no-header"),
        ("run", Setting("zero_based", "True"), "--zero-based"),
        ("run", Setting("missing", "..."), "--missing ..."),
        ("run", Setting("eta", "0.5"), "eta=0.5"),
        ("verify", Setting("expire_after", "n"), "expire_after=n"),
        ("import", Setting("reward_scale", "LOW,HIGH"), "--reward-scale LOW,HIGH"),
        ("import", Setting("reward_scale", "-1,5"), "--reward-scale -1,5"),
    ],
)
def test_commands_spell_settings_as_options(command, setting, expected):
    assert option_spelling(COMMANDS[command].params)(setting) == expected

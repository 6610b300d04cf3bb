"""Delay models: what they draw, what they refuse, how they are written."""

import gzip
import pickle
from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from delaytron.delays import (
    NEVER,
    ByClass,
    ByOutcome,
    Delay,
    Fixed,
    Geometric,
    LogNormal,
    OfRows,
    Pareto,
    Trace,
    Uniform,
    WithMissing,
    as_delay,
    parse,
)
from delaytron.delays.models import ALLOWED, MODELS
from delaytron.errors import InvalidInput

positive_floats = st.floats(1e-300, 1e300)
simple_models = st.one_of(
    st.builds(Fixed, st.integers(1, NEVER)),
    st.builds(Uniform, st.integers(1, NEVER)),
    st.builds(Geometric, st.floats(1, 1e300)),
    st.builds(LogNormal, positive_floats, st.floats(0, 1e300)),
    st.builds(Pareto, positive_floats, positive_floats),
    st.builds(Trace, st.lists(st.integers(1, 2**63 - 1) | st.just(-1), min_size=1)),
)
models = simple_models | st.builds(WithMissing, simple_models, st.floats(0, 1))
of_rows = st.builds(OfRows, st.booleans())
plain_or_rows = models.filter(lambda model: "Trace" not in repr(model)) | of_rows
class_names = st.text(st.characters(codec="ascii", exclude_characters="="), min_size=1).filter(
    lambda name: name == name.strip() and "/class:" not in name and "/else=" not in name
)
by_class = st.builds(ByClass, st.dictionaries(class_names, plain_or_rows, min_size=1), st.none() | plain_or_rows)
dependent = of_rows | by_class | st.builds(ByOutcome, plain_or_rows | by_class, plain_or_rows | by_class)


def draw(model, n_rounds=20_000, seed=0):
    return model.sample(n_rounds, np.random.default_rng(seed))


@given(models, st.integers(0, 50), st.integers(0, 2**32))
def test_every_model_draws_one_delay_of_at_least_one_per_round(model, n_rounds, seed):
    delays = draw(model, n_rounds, seed)
    assert delays.dtype == np.int64
    assert delays.shape == (n_rounds,)
    assert ((delays >= 1) & (delays <= NEVER)).all()
    assert isinstance(model, Delay)


@given(models, st.integers(0, 2**32))
def test_the_same_generator_state_gives_the_same_delays(model, seed):
    first = draw(model, 20, seed)
    first_again = draw(model, 20, seed)
    assert (first == first_again).all()
    first[:] = 7  # what was handed out belongs to the caller
    assert (draw(model, 20, seed) == first_again).all()


@given(models)
def test_a_model_survives_pickling(model):
    assert (draw(pickle.loads(pickle.dumps(model)), 20) == draw(model, 20)).all()  # noqa: S301


@given(models.filter(lambda model: "Trace" not in repr(model)))
def test_a_model_prints_as_the_call_that_makes_it(model):
    assert eval(repr(model)) == model


@given(models.filter(lambda model: "Trace" not in repr(model)))
def test_a_model_is_written_as_the_text_that_means_it(model):
    assert parse(str(model)) == model


@given(st.sampled_from(sorted(MODELS)), st.lists(st.floats(0, 1), max_size=3))
def test_every_model_in_the_table_is_read_by_its_name(name, rates):
    kind = MODELS[name]
    model = kind(*[1] * len(fields(kind)))
    for rate in rates:
        model = WithMissing(model, rate)
    assert str(model).startswith(f"{name}:1")
    assert parse(str(model)) == model
    assert f"{name}:" in ALLOWED


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (Uniform(1000), "uniform:1000"),
        (LogNormal(100, 1.5), "lognormal:100,1.5"),
        (WithMissing(Pareto(1e22, 0.1), 0.2), "pareto:1e+22,0.1+missing:0.2"),
        (Trace([4, -1, 2]), "trace of 3 delays, 33.3% never"),
        (WithMissing(Trace([4]), 0.5), "trace of 1 delays, 0.0% never+missing:0.5"),
    ],
)
def test_the_text_of_a_model_is_the_shortest_exact_one(model, text):
    assert str(model) == text


def test_a_model_of_the_user_is_written_as_its_repr():
    class Twice(Uniform):
        pass

    class Own:
        def sample(self, n_rounds, rng):
            return np.ones(n_rounds, np.int64)

        def __repr__(self):
            return "Own()"

    assert str(Twice(3)).endswith("Twice(D=3)")
    assert str(WithMissing(Own(), 0.5)) == "Own()+missing:0.5"


def test_a_trace_of_a_file_is_written_as_the_text_that_reads_it(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("3\n-1\n5\n")
    for trace in (Trace(path), Trace.from_file(path), parse(f"trace:{path}")):
        assert str(trace) == f"trace:{path}"
        assert parse(str(trace)).delays.tolist() == trace.delays.tolist()
    thinned = parse(f"trace:{path}+missing:0.5+missing:0.1")
    assert str(thinned) == f"trace:{path}+missing:0.5+missing:0.1"
    assert draw(parse(str(thinned))).tolist() == draw(thinned).tolist()


@pytest.mark.parametrize(
    ("header", "columns", "text"),
    [
        ("a,b", {"event": "a", "outcome": "b"}, ",event=a,outcome=b"),
        ("a,b", {"event": "a", "outcome": "b", "unit": "min"}, ",event=a,outcome=b,unit=min"),
        ("a,b", {"wait": "b"}, ",wait=b"),
        ('"shown, at",b=', {"event": "shown, at", "outcome": "b="}, ",event=shown, at,outcome=b="),
        ("a,b", {"wait": "b", "rate": 2.0}, ",wait=b,rate=2"),
        ("a,b", {"wait": "b", "rate": 1 / 3, "unit": "h"}, ",wait=b,rate=0.3333333333333333,unit=h"),
    ],
)
def test_columns_that_are_named_are_in_the_text(tmp_path, header, columns, text):
    path = tmp_path / "log.csv"
    path.write_text(f"{header}\n1,3\n2,\n4,9\n")
    trace = Trace.from_file(path, **columns)
    assert str(trace) == f"trace:{path}{text}"
    again = parse(f"{trace}+missing:0.1").model
    assert (str(again), again.delays.tolist()) == (str(trace), trace.delays.tolist())


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (",evnt=a", "what follows the file of a trace must be one of event, .*, got 'evnt'; did you mean event?"),
        (",wait=a,wait=b", "log.csv,wait=a,wait=b names wait twice; leave one out"),
        (",wait=a,rate=two", "rate must be a number of rounds in a unit of the waiting times, got 'two'"),
        (",wait=a,rate=0", "rate must be above 0, got 0"),
        (",wait=c", "there must be one column 'c'; the columns are a, b"),
        (",event=a", "columns must be named as trace:.*log.csv,event=COLUMN,outcome=COLUMN or .*, got event"),
        ("", "name the columns as trace:.*log.csv,event=COLUMN,outcome=COLUMN or trace:.*,wait=COLUMN,rate=R"),
    ],
)
def test_columns_that_are_wrong_in_the_text(tmp_path, columns, message):
    (tmp_path / "log.csv").write_text("a,b\n1,3\n")
    with pytest.raises(InvalidInput, match=message):
        parse(f"trace:{tmp_path / 'log.csv'}{columns}")


def test_a_file_may_be_called_like_a_column(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a,wait=b").write_text("4\n")
    assert str(parse("trace:a,wait=b")) == "trace:a,wait=b"


def test_a_trace_that_no_short_form_describes_has_none(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text('"a,rate=2"\n3\n5\n')
    assert str(Trace.from_file(path, wait="a,rate=2")) == "trace of 2 delays, 0.0% never"
    path.write_text("0\n5\n")
    assert str(Trace(path, never=0)) == "trace of 2 delays, 50.0% never"


def test_numpy_numbers_are_kept_as_plain_ones():
    assert repr(Uniform(np.int32(1000))) == "Uniform(D=1000)"
    assert repr(LogNormal(np.float64(2.5), 1)) == "LogNormal(median=2.5, sigma=1.0)"


def test_a_model_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        Fixed(3).d = 4


def test_a_round_number_plus_never_does_not_overflow():
    assert np.int64(10**15) + draw(WithMissing(Fixed(1), 1), 1)[0] > 0


def test_zero_rounds_are_allowed_and_fewer_are_not():
    assert draw(Trace([1, 2]), 0).dtype == np.int64
    with pytest.raises(InvalidInput, match="n_rounds must be an integer of at least 0, got -1"):
        draw(Uniform(3), -1)


def test_fixed_is_the_same_in_every_round():
    assert (draw(Fixed(5)) == 5).all()


@given(st.integers(1, 20))
def test_uniform_covers_exactly_one_to_d(D):
    assert np.unique(draw(Uniform(D), 2_000)).tolist() == list(range(1, D + 1))


def test_uniform_gives_each_delay_its_share():
    shares = np.bincount(draw(Uniform(10), 100_000))[1:] / 100_000
    np.testing.assert_allclose(shares, 0.1, atol=0.005)


def test_geometric_has_its_mean_and_starts_at_one():
    delays = draw(Geometric(50), 100_000)
    assert delays.min() == 1
    assert delays.mean() == pytest.approx(50, rel=0.02)
    assert (draw(Geometric(1)) == 1).all()


def test_lognormal_is_the_exponential_of_the_generators_normals_rounded_up():
    normals = np.random.default_rng(0).standard_normal(20_000)
    expected = np.maximum(np.ceil(100 * np.exp(1.5 * normals)), 1)
    assert (draw(LogNormal(100, 1.5)) == expected).all()


def test_half_of_the_lognormal_delays_are_at_most_the_median():
    assert np.mean(draw(LogNormal(100, 1.5), 100_000) <= 100) == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(("median", "delay"), [(0.01, 1), (1, 1), (2.5, 3), (1e300, NEVER)])
def test_lognormal_without_spread_is_its_median_rounded_up(median, delay):
    assert (draw(LogNormal(median, 0), 5) == delay).all()


def test_pareto_has_its_tail():
    delays = draw(Pareto(10, 1.2), 100_000)
    assert delays.min() >= 10
    for d in (10, 20, 100):
        assert np.mean(delays > d) == pytest.approx((10 / d) ** 1.2, abs=0.01)


def test_a_pareto_minimum_below_one_makes_many_delays_of_one():
    delays = draw(Pareto(0.5, 1.2), 100_000)
    for d in (1, 2, 10):
        assert np.mean(delays > d) == pytest.approx((0.5 / d) ** 1.2, abs=0.01)


def test_a_pareto_tail_too_heavy_for_64_bits_means_never():
    assert np.mean(draw(Pareto(1, 1e-6)) == NEVER) > 0.99


def test_missing_at_rate_zero_changes_nothing_and_at_rate_one_loses_all():
    assert (draw(WithMissing(Uniform(9), 0)) == draw(Uniform(9))).all()
    assert (draw(WithMissing(Uniform(9), 1)) == NEVER).all()


def test_missing_loses_its_share_and_keeps_the_other_delays():
    plain, thinned = draw(Uniform(9)), draw(WithMissing(Uniform(9), 0.2))
    lost = thinned == NEVER
    assert np.mean(lost) == pytest.approx(0.2, abs=0.01)
    assert (thinned[~lost] == plain[~lost]).all()


def test_missing_takes_anything_that_means_a_delay():
    assert WithMissing(9, 0.5) == WithMissing(Uniform(9), 0.5)


def test_missing_takes_a_model_that_draws_narrow_integers():
    class Short:
        def sample(self, n_rounds, rng):
            return np.ones(n_rounds, dtype=np.int8)

    assert draw(WithMissing(Short(), 1), 2).tolist() == [NEVER, NEVER]


@given(st.lists(st.integers(1, 99), min_size=1), st.integers(0, 300))
def test_a_trace_is_used_in_order_and_repeated(recorded, n_rounds):
    assert draw(Trace(recorded), n_rounds).tolist() == [recorded[i % len(recorded)] for i in range(n_rounds)]


@given(hnp.arrays(hnp.integer_dtypes() | hnp.unsigned_integer_dtypes(), st.integers(1, 9)))
def test_a_trace_takes_every_integer_type(recorded):
    recorded[recorded < 1] = 1
    assert draw(Trace(recorded), len(recorded)).tolist() == [min(int(d), NEVER) for d in recorded]


def test_a_trace_does_not_follow_later_changes_of_its_source():
    recorded = np.array([1, 2, 3])
    trace = Trace(recorded)
    recorded[0] = 9
    assert draw(trace, 3).tolist() == [1, 2, 3]


def test_a_trace_marks_lost_feedback():
    assert draw(Trace([4, -1, 2]), 3).tolist() == [4, NEVER, 2]
    assert draw(Trace([4, 0, 2], never=0), 3).tolist() == [4, NEVER, 2]
    assert draw(Trace(np.array([4, 99], np.uint8), never=99), 2).tolist() == [4, NEVER]


def test_traces_are_equal_only_to_themselves():
    trace = Trace([1])
    assert trace == trace  # noqa: PLR0124
    assert trace != Trace([2])


def test_a_trace_prints_its_size_and_losses():
    assert repr(Trace([4, -1, 2])) == "Trace(3 delays, 33.3% never)"
    assert repr(WithMissing([4], 0.5)) == "WithMissing(model=Trace(1 delays, 0.0% never), rate=0.5)"


TEXT = "# recorded in May\n\ndelay_7_days\n4  # first\n-1\n\n2\n"


def write(folder, name, content):
    path = folder / name
    with gzip.open(path, "wb") if name.endswith(".gz") else path.open("wb") as file:
        file.write(content.encode()) if isinstance(content, str) else np.save(file, content)
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", TEXT),
        ("a.csv.gz", TEXT),
        ("a.txt", "4\r\n-1\r\n2"),
        ("a.csv", '\ufeff"delay"\n4\n-1\n2'),
        ("a.npy", np.array([4, -1, 2], np.int32)),
        ("a.npy.gz", np.array([4, -1, 2])),
    ],
)
def test_a_trace_is_read_from_a_file(tmp_path, name, content):
    path = write(tmp_path, name, content)
    assert draw(Trace(path), 3).tolist() == [4, NEVER, 2]
    assert draw(Trace(str(path)), 3).tolist() == [4, NEVER, 2]


def test_a_recorded_delay_beyond_64_bits_means_never(tmp_path):
    assert draw(Trace(write(tmp_path, "a.txt", "3\n" + "9" * 30)), 2).tolist() == [3, NEVER]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", TEXT + "0\n", "a.txt, line 8: a delay must be at least 1, or -1 for never; got 0"),
        ("a.txt", "3\n1.5\n", "a.txt, line 2: a trace has one integer per line, got '1.5'"),
        ("a.txt", "1.5\n3\n", "line 1: .* got '1.5'"),
        ("a.txt", "3\nwords\n", "line 2: .* got 'words'"),
        ("a.txt", "header\nanother\n3\n", "line 2: .* got 'another'"),
        ("a.txt", "3,4\n", "line 1: .* got '3,4'"),
        ("a.txt", "--3\n", "line 1: .* got '--3'"),
        ("a.txt", "# nothing\n", "a.txt: there is no delay in this file"),
        ("a.npy", np.array([4, 0]), "a.npy, index 1: a delay must be at least 1"),
        ("a.npy", np.array([4.0]), r"a.npy: a trace must be 1-D integers, got shape \(1,\) of float64"),
        ("a.npy", "not an array", "a.npy: cannot be read, .*; save 1-D integers by numpy.save"),
    ],
)
def test_a_trace_file_with_something_wrong_is_refused(tmp_path, name, content, message):
    with pytest.raises(InvalidInput, match=message):
        Trace(write(tmp_path, name, content))


def test_a_trace_file_that_cannot_be_read_is_refused(tmp_path):
    whole = gzip.compress(TEXT.encode())
    for name, content in [
        ("cut.gz", whole[:-9]),
        ("no.gz", b"plain"),
        ("x.txt", b"\xff\xfe"),
        ("e.npy", b""),
    ]:
        (tmp_path / name).write_bytes(content)
    for name, message in {
        "absent.txt": r"cannot read '.*absent\.txt': No such file",
        "cut.gz": r"cut\.gz, line \d+: cannot be read any further: Compressed file ended",
        "no.gz": r"no\.gz, line 1: cannot be read any further: Not a gzipped file",
        "x.txt": r"x\.txt: must be text in UTF-8, or end in .npy; save the file in UTF-8",
        "e.npy": r"e\.npy: cannot be read, .*; save 1-D integers by numpy.save",
        "": "cannot read '.*': Is a directory",
    }.items():
        with pytest.raises(InvalidInput, match=message):
            Trace(tmp_path / name)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Fixed(0), "d must be an integer of at least 1, got 0"),
        (lambda: Fixed(10**30), f"d must be at most {NEVER}, got 10"),
        (lambda: Fixed(True), "d must be an integer of at least 1, got True"),
        (lambda: Uniform(2.5), "D must be an integer of at least 1, got 2.5"),
        (lambda: Geometric(0.5), "mean must be at least 1, got 0.5"),
        (lambda: Geometric(float("nan")), "mean must be a finite number, got nan"),
        (lambda: LogNormal(0, 1), "median must be above 0, got 0"),
        (lambda: LogNormal(1, -1), "sigma must be at least 0, got -1"),
        (lambda: Pareto(0, 1), "minimum must be above 0, got 0"),
        (lambda: Pareto(1, 0), "alpha must be above 0, got 0"),
        (lambda: Pareto(1, "2"), "alpha must be a finite number, got '2'"),
        (lambda: WithMissing(Fixed(1), 1.2), r"rate must be in \[0, 1\], got 1.2"),
        (
            lambda: WithMissing(2.5, 0.5),
            "delay must be a model, an integer, a 1-D array or 1000.*got 2.5",
        ),
        (lambda: Trace([3, 0]), "a delay must be at least 1, or -1 for never; got 0"),
        (lambda: Trace([3, -2]), "index 1: a delay must be .* got -2"),
        (lambda: Trace([3], never=0.5), "never must be an integer .*got 0.5"),
        (lambda: Trace([]), r"a trace must be 1-D integers, got shape \(0,\)"),
        (lambda: Trace([[1, 2]]), r"got shape \(1, 2\) of int64"),
        (lambda: Trace([1.0]), "of float64"),
        (lambda: Trace([True]), "of bool"),
        (lambda: Trace([[1], [1, 2]]), "must be a 1-D sequence, got rows of different lengths"),
    ],
)
def test_a_bad_parameter_is_refused_with_what_is_allowed(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("1000", Uniform(1000)),
        (" uniform:1000 ", Uniform(1000)),
        ("fixed:10", Fixed(10)),
        ("geometric:50", Geometric(50)),
        ("lognormal:100,1.5", LogNormal(100, 1.5)),
        ("pareto:10, 1.2", Pareto(10, 1.2)),
        ("1000+missing:0.2", WithMissing(Uniform(1000), 0.2)),
        ("pareto:10,1.2+missing:1", WithMissing(Pareto(10, 1.2), 1)),
    ],
)
def test_text_is_read_as_a_model(text, model):
    assert parse(text) == model
    assert as_delay(text) == model


def test_text_names_a_trace_file(tmp_path):
    path = write(tmp_path, "a,b:c.txt", TEXT)
    assert repr(parse(f"trace:{path}")) == "Trace(3 delays, 33.3% never)"
    assert repr(parse(f"trace:{path}+missing:0.2").model) == "Trace(3 delays, 33.3% never)"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "words",
        "trace:",
        "uniform:",
        "fixed:1,2",
        "pareto:10",
        "1000+missing:",
    ],
)
def test_text_that_means_nothing_is_refused_with_what_is_allowed(text):
    with pytest.raises(InvalidInput, match=r"delay must be 1000 or uniform:D, .*trace:FILE, .*, got '"):
        parse(text)


@pytest.mark.parametrize(
    ("delay", "message"),
    [
        ("normal:3", "delay 'normal:3': the model must be one of uniform, .*, got 'normal'; did you mean lognormal"),
        ("5+missing:2", r"delay '5\+missing:2': rate must be in \[0, 1\], got 2.0"),
        (0, "delay must be an integer of at least 1, got 0"),
        (10**60, "delay must be at most 4611686018427387903, got 10{56}\\.\\.\\.; use WithMissing"),
    ],
)
def test_a_wrong_delay_is_named(delay, message):
    with pytest.raises(InvalidInput, match=message):
        as_delay(delay)


def test_only_text_is_parsed():
    with pytest.raises(InvalidInput, match=r"delay must be text, 1000 or .*, got None"):
        parse(None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0", "^delay must be an integer of at least 1, got 0"),
        ("1.5", "^delay must be an integer of at least 1, got 1.5"),
        ("log2.csv", r"got 'log2.csv'; did you mean trace:log2.csv\?"),
        ("fixed:2.5", "d must be an integer of at least 1, got 2.5"),
        ("geometric:nan", "mean must be a finite number, got nan"),
        ("10+missing:2", r"rate must be in \[0, 1\], got 2.0"),
        ("trace:/absent.txt", "cannot read the trace '/absent.txt'"),
    ],
)
def test_text_with_a_bad_value_is_refused_with_the_models_own_words(text, message):
    with pytest.raises(InvalidInput, match=message):
        parse(text)


def test_a_number_a_list_and_a_model_mean_a_delay():
    assert as_delay(7) == as_delay(np.int64(7)) == Uniform(7)
    assert as_delay(Fixed(7)) == Fixed(7)
    for recorded in ([3, 1], (3, 1), np.array([3, 1])):
        assert draw(as_delay(recorded), 3).tolist() == [3, 1, 3]


@pytest.mark.parametrize("value", [None, True, 2.5, Uniform, {1: 2}, np.array(3.5)])
def test_anything_else_is_no_delay(value):
    with pytest.raises(InvalidInput, match="delay must be a model, an integer, a 1-D array or 1000"):
        as_delay(value)


@given(dependent)
def test_a_model_that_depends_on_a_round_is_written_as_the_text_that_means_it(model):
    if "right=" in str(model) and ("/right=" in str(model)[1:] or str(model).count("/wrong=") > 1):
        return  # a class with such a name is written as Python
    text = str(model)
    assert (eval(text) if text.startswith("By") else parse(text)) == model
    assert eval(repr(model)) == pickle.loads(pickle.dumps(model)) == model  # noqa: S301
    assert isinstance(hash(model), int)


@given(dependent)
def test_a_model_that_depends_on_a_round_cannot_be_drawn_without_it(model):
    with pytest.raises(InvalidInput, match="which is not known here") as caught:
        draw(model, 3)
    assert "\n" not in str(caught.value)
    assert isinstance(model, Delay)


def test_names_of_classes_that_text_cannot_hold_are_written_as_python():
    model = ByClass({"a=b": 3})
    assert str(model) == repr(model) == "ByClass(models={'a=b': Uniform(D=3)}, default=None)"
    assert ByClass({1: 3}) == ByClass({"1": Uniform(3)})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("right=3", "delay must be right=MODEL/wrong=MODEL, .*; for example, write right=10/wrong"),
        ("wrong=3/wrong=4", "delay must be right=MODEL/wrong=MODEL"),
        ("right=3/wrong=4/right=5", "delay must be right=MODEL/wrong=MODEL"),
        ("else=4", "delay must be right=MODEL/wrong=MODEL"),
        ("class:a=3/class:a=4", "delay must be right=MODEL/wrong=MODEL"),
        ("right=often/wrong=4", "delay must be 1000 or uniform:D"),
        ("class:a=fixed:0", "delay 'fixed:0': d must be an integer of at least 1"),
        ("record", "delay must be .* recorded, shuffled, "),
    ],
)
def test_text_of_several_models_that_is_wrong(text, message):
    with pytest.raises(InvalidInput, match=message) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda inner: WithMissing(inner, 0.5),
        lambda inner: ByClass({"a": inner}),
        lambda inner: ByClass({"a": 3}, inner),
        lambda inner: ByOutcome(1, inner),
    ],
)
def test_an_outcome_is_asked_for_only_once(make):
    with pytest.raises(InvalidInput, match=r"must be a model of its own, got .*; make it a part of each of its models"):
        make(ByOutcome(1, 2))


@pytest.mark.parametrize("models", [{}, [3], None])
def test_classes_need_models(models):
    with pytest.raises(InvalidInput, match="models must be a dict of models by the names of classes"):
        ByClass(models)

"""Summaries of recorded delays: exact counts, and fits that are what they claim to be."""

from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import lognorm, pareto

from delaytron.delays import NEVER, LogNormal, Pareto, Trace, example, parse
from delaytron.delays.fits import STRETCHES, count_pending, fit_models, log_likelihood, log_survival, summarize
from delaytron.errors import InvalidInput
from optional import needs_data

recorded = st.lists(st.integers(1, 12) | st.just(-1) | st.sampled_from([100, 10**6]), min_size=1, max_size=40)


def draw(model, n_rounds=100_000, seed=1):
    return model.sample(n_rounds, np.random.default_rng(seed))


def counted(delays):
    return np.unique(delays[delays < NEVER], return_counts=True)


def naive_pending(delays, counts):
    """Look at every round from every later one."""
    return [
        sum(counts(d) and (d == -1 or s + d > t) for s, d in enumerate(delays[: t + 1])) for t in range(len(delays))
    ]


@settings(max_examples=30)
@given(recorded)
def test_pending_rounds_are_those_a_naive_count_finds(delays):
    summary = summarize(delays)
    everything = naive_pending(delays, lambda d: True)
    assert summary.pending.stretches.tolist() == everything
    assert summary.pending.highest == max(everything)
    assert summary.pending.mean == pytest.approx(np.mean(everything))
    assert summary.coming.stretches.tolist() == naive_pending(delays, lambda d: d != -1)


def test_a_long_trace_is_summarized_in_stretches_that_miss_no_peak():
    delays = np.ones(10_000, np.int64)
    delays[5000:5007] = 10
    pending = count_pending(delays, np.ones(10_000, np.bool_))
    assert len(pending.stretches) == STRETCHES
    assert pending.stretches.max() == pending.highest == 8


@settings(max_examples=30)
@given(recorded)
def test_shares_and_quantiles_are_counted(delays):
    summary = summarize(np.array(delays))
    come = sorted(d for d in delays if d != -1)
    assert summary.n_rounds == len(delays)
    assert summary.never == pytest.approx(delays.count(-1) / len(delays))
    assert summary.late == pytest.approx(
        sum(d != -1 and t + d >= len(delays) for t, d in enumerate(delays)) / len(delays)
    )
    assert summary.delays.tolist() == sorted(set(come))
    assert summary.counts.tolist() == [come.count(d) for d in sorted(set(come))]
    assert summary.longer.tolist() == pytest.approx([sum(c > d for c in come) / len(come) for d in sorted(set(come))])
    for share, quantile in summary.quantiles.items():
        assert sum(d <= quantile for d in come) >= share * len(come) - 1e-9
        assert sum(d < quantile for d in come) < share * len(come) + 1e-9
    if come:
        assert summary.mean == pytest.approx(np.mean(come))
        assert summary.quantiles[1.0] == come[-1]


@pytest.mark.parametrize(
    "model",
    [
        *(LogNormal(50, 2), LogNormal(0.3, 1), LogNormal(2000, 0.01), LogNormal(1e12, 0.5)),
        *(Pareto(0.5, 1.2), Pareto(1, 0.5), Pareto(10, 1.2), Pareto(9.3, 3), Pareto(0.1, 0.4)),
    ],
    ids=repr,
)
def test_a_fit_finds_the_model_that_was_drawn_from(model):
    values, counts = counted(draw(model))
    best = fit_models(values, counts)[0]
    assert type(best.model) is type(model)
    assert astuple(best.model) == pytest.approx(astuple(model), rel=0.04)
    assert best.log_likelihood >= log_likelihood(model, values, counts)
    assert best.distance < 0.005


def slopes_down(model, values, counts, step):
    """Whether every small step away from a model makes the delays less likely."""
    best = log_likelihood(model, values, counts)
    parameters = np.array(astuple(model))
    for direction in np.array([(1, 0), (0, 1), (1, 1), (1, -1)]) * step:
        for sign in (1, -1):
            other = type(model)(*(parameters * (1 + sign * direction)))
            if log_likelihood(other, values, counts) > best + 1e-12:
                return False
    return True


@pytest.mark.parametrize(
    "truth", [LogNormal(40, 1.5), Pareto(0.7, 0.8), Pareto(30.5, 2), parse("geometric:20")], ids=repr
)
@pytest.mark.parametrize("step", [1e-1, 1e-3, 1e-5])
def test_a_fit_is_a_maximum(truth, step):
    values, counts = counted(draw(truth, 20_000))
    for fit in fit_models(values, counts):
        assert slopes_down(fit.model, values, counts, step)


@pytest.mark.parametrize(
    "model", [LogNormal(30, 1.5), LogNormal(0.5, 0.7), Pareto(0.6, 1.3), Pareto(4.5, 0.9)], ids=repr
)
def test_likelihoods_are_those_of_the_models_as_they_draw(model):
    values, counts = counted(draw(model, 1_000_000))
    common = counts > 1000
    shares = counts[common] / counts.sum()
    modelled = [np.exp(log_likelihood(model, values[i : i + 1], counts[:1])) for i in np.flatnonzero(common)]
    np.testing.assert_allclose(modelled, shares, rtol=0.15)
    assert sum(modelled) == pytest.approx(shares.sum(), abs=0.002)


def chance(model, delay):
    return np.exp(log_likelihood(model, np.array([delay]), np.array([1])))


@pytest.mark.parametrize("model", [LogNormal(30, 1.5), LogNormal(1500.5, 0.0001), Pareto(0.6, 2.5), Pareto(234.5, 30)])
def test_the_chances_of_all_delays_add_up_to_one(model):
    beyond = np.exp(log_survival(model, np.array([2000.0])))[0]
    assert sum(chance(model, delay) for delay in range(1, 2001)) + beyond == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(
    ("model", "delay"),
    [
        (LogNormal(3, 0.5), 10**6),
        (LogNormal(3, 0.5), 10**15),
        (LogNormal(1e6, 2), 10**9),
        (LogNormal(1e6, 2), 10**18),
        (LogNormal(1e9, 0.01), 10**8),
        (LogNormal(1e9, 0.01), 10**12),
        (Pareto(2, 9), 10**15),
        (Pareto(2, 0.1), 10**18),
    ],
)
def test_far_delays_have_the_chance_of_their_density(model, delay):
    shape, of = (model.sigma, lognorm) if isinstance(model, LogNormal) else (model.alpha, pareto)
    density = of.logpdf(delay - 0.5, shape, scale=astuple(model)[0])
    assert log_likelihood(model, np.array([delay]), np.array([1])) == pytest.approx(density, rel=1e-6)


@pytest.mark.parametrize("delay", [1, 2, 1000])
def test_delays_far_below_all_others_are_unlikely_but_possible(delay):
    modelled = log_likelihood(LogNormal(1e9, 1e-3), np.array([delay]), np.array([1]))
    end = np.log(delay / 1e9) / 1e-3  # nearly all of the chance lies at the cell's upper end
    assert modelled == pytest.approx(-(end**2) / 2, rel=1e-5)


def test_digits_are_few_where_that_does_no_harm_and_many_where_it_would():
    assert summarize(draw(LogNormal(53.2, 1.9), 20_000)).fits[0].text == "lognormal:52.1,1.89"
    narrow = summarize([100_000, 100_001] * 50)
    for fit in narrow.fits:
        pasted = draw(parse(fit.text), 1000)
        assert set(pasted.tolist()) == {100_000, 100_001}


@pytest.mark.parametrize("name", ["lognormal", "pareto"])
def test_a_model_to_paste_draws_what_was_recorded(name):
    trace = Trace(draw(parse(f"{name}:20,1.5+missing:0.3"), 50_000))
    summary = summarize(trace)
    pasted = parse(summary.models[0])
    assert summary.models[0].startswith(name)
    assert np.mean(draw(pasted) == NEVER) == pytest.approx(0.3, abs=0.01)
    assert summarize(draw(pasted)).quantiles[0.9] == pytest.approx(summary.quantiles[0.9], rel=0.05)


@pytest.mark.parametrize(
    ("delays", "models"),
    [
        ([7, 7, -1, 7], ["fixed:7+missing:0.25"]),
        ([5], ["fixed:5"]),
        ([-1, -1], []),
        ([-1], []),
    ],
)
def test_a_trace_with_nothing_to_fit_is_summarized(delays, models, tmp_path):
    summary = summarize(delays)
    assert summary.fits == ()
    assert summary.models == models
    summary.plot(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 1000


@settings(max_examples=30)
@given(st.lists(st.integers(1, 5) | st.integers(1, 2**61), min_size=2, max_size=10))
def test_any_trace_has_fits_that_can_be_pasted(delays):
    for text in summarize(delays).models:
        assert draw(parse(text), 3).min() >= 1


def test_a_table_has_a_row_per_delay_with_the_share_of_longer_ones():
    table = summarize([1, 1, 2, 4, -1]).to_table()
    assert table.column_names[:3] == ["delay", "rounds", "longer"]
    assert set(table.column_names[3:]) == {"lognormal", "pareto"}
    assert table.select(["delay", "rounds", "longer"]).to_pylist() == [
        {"delay": 1, "rounds": 2, "longer": 0.5},
        {"delay": 2, "rounds": 1, "longer": 0.25},
        {"delay": 4, "rounds": 1, "longer": 0.0},
    ]


@pytest.mark.parametrize("delays", [100, "uniform:5", LogNormal(3, 1)])
def test_a_model_is_refused(delays):
    with pytest.raises(InvalidInput, match="recorded delays must be a trace or integers, got "):
        summarize(delays)


@needs_data
def test_the_summary_of_the_replies_of_college_students():
    summary = summarize(example("college"))
    assert summary.never == 21_600 / 59_835
    assert summary.pending.highest == summary.pending.stretches.max() == 21_600
    assert summary.models[0] == "lognormal:53.2,3.09+missing:0.361"
    assert summary.waits[0.5] == 4778  # seconds, by the file's third column
    assert summary.waits[1.0] == 14_150_892


@needs_data
def test_reports_of_cases_come_in_whole_weeks():
    assert {wait % (7 * 86400) for wait in summarize(example("dengue")).waits.values()} == {0}


@needs_data
@pytest.mark.parametrize("name", ["college", "dengue", "retweets"])
def test_a_fit_to_a_real_trace_is_a_maximum(name):
    summary = summarize(example(name))
    for fit in summary.fits:
        assert slopes_down(fit.model, summary.delays, summary.counts, 1e-2)
    assert summary.fits[0].distance < 0.1

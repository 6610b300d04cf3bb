"""Metrics for Prometheus: requests by route and status, their durations, and the counts of the models."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

from delaytron.service.messages import DriftCounts, StatsReply

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
Value: TypeAlias = Callable[[StatsReply], float | None]


def of_drift(value: Callable[[DriftCounts], int]) -> Value:
    """Return a value of the challengers, None for a model whose learner has none."""
    return lambda stats: None if stats.drift is None else value(stats.drift)


OF_MODELS: dict[str, tuple[str, str, Value]] = {  # name -> type, help, value
    "delaytron_decisions_total": ("counter", "Decisions made.", lambda stats: stats.decisions),
    "delaytron_answers_total": ("counter", "Answers stored.", lambda stats: stats.answered),
    "delaytron_expired_total": ("counter", "Decisions that expired.", lambda stats: stats.expired),
    "delaytron_cancelled_total": ("counter", "Decisions that were cancelled.", lambda stats: stats.cancelled),
    "delaytron_corrected_total": ("counter", "Answers that corrected an expiry.", lambda stats: stats.corrected),
    "delaytron_late_answers_total": (
        "counter",
        "Answers too late to be learned from.",
        lambda stats: stats.late,
    ),
    "delaytron_open_decisions": ("gauge", "Decisions that wait for an answer.", lambda stats: stats.open),
    "delaytron_oldest_open_seconds": (
        "gauge",
        "Age of the oldest open decision.",
        lambda stats: stats.oldest_seconds or 0.0,
    ),
    "delaytron_mean_reward": ("gauge", "Mean reward of the answers.", lambda stats: stats.mean_reward),
    "delaytron_accuracy": (
        "gauge",
        "Mean reward so far, with a 0 for each decision that expired as wrong.",
        lambda stats: stats.accuracy.mean,
    ),
    "delaytron_accuracy_low": ("gauge", "The same if all open decisions were wrong.", lambda stats: stats.accuracy.low),
    "delaytron_accuracy_high": (
        "gauge",
        "The same if all open decisions, and those that can be corrected, were right.",
        lambda stats: stats.accuracy.high,
    ),
    "delaytron_challenger": (
        "gauge",
        "Whether a challenger learns beside the model (1) or not (0).",
        of_drift(lambda drift: int(drift.challenger)),
    ),
    "delaytron_challengers_born_total": (
        "counter",
        "Challengers that began because rewards fell.",
        of_drift(lambda drift: drift.born),
    ),
    "delaytron_challengers_won_total": (
        "counter",
        "Challengers that took over, and forecast better.",
        of_drift(lambda drift: drift.won),
    ),
    "delaytron_challengers_dropped_total": (
        "counter",
        "Challengers that were given up: the model forecast better.",
        of_drift(lambda drift: drift.dropped),
    ),
}


class Metrics:
    """Counts of requests and of their durations.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.count("/healthz", 200, 0.002)
    >>> print(metrics.text({}).splitlines()[2])
    delaytron_http_requests_total{route="/healthz",status="200"} 1
    """

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._times: dict[str, list[int]] = {}
        self._seconds: Counter[str] = Counter()

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self._requests[route, status] += 1
        counts = self._times.setdefault(route, [0] * (len(BUCKETS) + 1))
        counts[bisect_left(BUCKETS, seconds)] += 1
        self._seconds[route] += seconds  # type: ignore[assignment]

    def text(self, stats: dict[str, StatsReply]) -> str:
        """Return all metrics in the text format of Prometheus; `stats` are those of the models, by name."""
        lines = _head("delaytron_http_requests_total", "counter", "Requests answered.")
        lines += [
            f'delaytron_http_requests_total{{route="{route}",status="{status}"}} {count}'
            for (route, status), count in sorted(self._requests.items())
        ]
        name = "delaytron_http_request_duration_seconds"
        lines += _head(name, "histogram", "Durations of requests.")
        for route, counts in sorted(self._times.items()):
            so_far = 0
            for bound, count in zip((*BUCKETS, "+Inf"), counts, strict=True):
                so_far += count
                lines.append(f'{name}_bucket{{route="{route}",le="{bound}"}} {so_far}')
            lines.append(f'{name}_sum{{route="{route}"}} {float(self._seconds[route])!r}')
            lines.append(f'{name}_count{{route="{route}"}} {so_far}')
        for name, (kind, text, value) in OF_MODELS.items():
            lines += _head(name, kind, text)
            known = {_escaped(model): value(counts) for model, counts in stats.items()}
            lines += [f'{name}{{model="{model}"}} {number}' for model, number in known.items() if number is not None]
        return "\n".join(lines) + "\n"


def _escaped(label: str) -> str:
    """Return a label as Prometheus reads it: a journal that was copied into the folder can have any name."""
    return label.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _head(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]

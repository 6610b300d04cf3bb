"""What Prometheus reads: requests by route and status, how long they took, and what the models count."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable

from delaytron.service.messages import StatsReply

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
OF_MODELS: dict[
    str, tuple[str, str, Callable[[StatsReply], float | None]]
] = {  # name -> its type, its help and what it is
    "delaytron_decisions_total": ("counter", "Decisions made.", lambda stats: stats.decisions),
    "delaytron_answers_total": ("counter", "Answers taken.", lambda stats: stats.answered),
    "delaytron_expired_total": ("counter", "Decisions that expired.", lambda stats: stats.expired),
    "delaytron_cancelled_total": ("counter", "Decisions that were cancelled.", lambda stats: stats.cancelled),
    "delaytron_late_answers_total": ("counter", "Answers that corrected an expiry.", lambda stats: stats.late),
    "delaytron_tokens_issued_total": ("counter", "Decisions handed out in tokens.", lambda stats: stats.issued),
    "delaytron_tokens_redeemed_total": ("counter", "Answers to tokens.", lambda stats: stats.redeemed),
    "delaytron_open_decisions": ("gauge", "Decisions that wait for an answer.", lambda stats: stats.open),
    "delaytron_oldest_open_seconds": ("gauge", "Age of the oldest of them.", lambda stats: stats.oldest_seconds or 0.0),
    "delaytron_mean_reward": ("gauge", "Mean reward of the answers.", lambda stats: stats.accuracy.mean),
}


class Metrics:
    """Counts requests.

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
        """Count a request."""
        self._requests[route, status] += 1
        counts = self._times.setdefault(route, [0] * (len(BUCKETS) + 1))
        counts[bisect_left(BUCKETS, seconds)] += 1
        self._seconds[route] += seconds  # type: ignore[assignment]

    def text(self, stats: dict[str, StatsReply]) -> str:
        """Return all metrics, with those of the models by their names."""
        lines = _head("delaytron_http_requests_total", "counter", "Requests answered.")
        lines += [
            f'delaytron_http_requests_total{{route="{route}",status="{status}"}} {count}'
            for (route, status), count in sorted(self._requests.items())
        ]
        lines += self._histogram()
        for name, (kind, text, value) in OF_MODELS.items():
            lines += _head(name, kind, text)
            known = {model: value(counts) for model, counts in stats.items()}
            lines += [f'{name}{{model="{model}"}} {number}' for model, number in known.items() if number is not None]
        return "\n".join(lines) + "\n"

    def _histogram(self) -> list[str]:
        name = "delaytron_http_request_duration_seconds"
        lines = _head(name, "histogram", "How long requests took.")
        for route, counts in sorted(self._times.items()):
            so_far = 0
            for bound, count in zip((*BUCKETS, "+Inf"), counts, strict=True):
                so_far += count
                lines.append(f'{name}_bucket{{route="{route}",le="{bound}"}} {so_far}')
            lines.append(f'{name}_sum{{route="{route}"}} {float(self._seconds[route])!r}')
            lines.append(f'{name}_count{{route="{route}"}} {so_far}')
        return lines


def _head(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]

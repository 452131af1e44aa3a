"""Metrics in the text format of Prometheus: counters, one histogram, and gauges read at the time of the scrape."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping

__all__ = ["Metrics", "render"]

_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Counters and a histogram of request durations.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.count("bot_orch_decisions_total", agent="a")
    >>> print(metrics.text({}))
    # TYPE bot_orch_decisions_total counter
    bot_orch_decisions_total{agent="a"} 1
    <BLANKLINE>
    """

    def __init__(self) -> None:
        self._counters: dict[str, dict[Labels, float]] = defaultdict(lambda: defaultdict(float))
        self._seconds: dict[str, list[int]] = {}
        self._sums: dict[str, float] = defaultdict(float)

    def count(self, name: str, by: float = 1, **labels: str) -> None:
        """Add to a counter."""
        self._counters[name][tuple(labels.items())] += by

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count one request and its duration."""
        self._counters["bot_orch_requests_total"][(("route", route), ("status", str(status)))] += 1
        buckets = self._seconds.setdefault(route, [0] * (len(_BOUNDS_S) + 1))
        buckets[bisect_left(_BOUNDS_S, seconds)] += 1
        self._sums[route] += seconds

    def text(self, gauges: Mapping[str, Iterable[tuple[Mapping[str, str], float]]]) -> str:
        """All metrics in the text format of Prometheus."""
        lines: list[str] = []
        for name, series in sorted(self._counters.items()):
            lines.append(f"# TYPE {name} counter")
            lines += [render(name, dict(labels), value) for labels, value in sorted(series.items())]
        if self._seconds:
            lines.append("# TYPE bot_orch_request_seconds histogram")
        for route, buckets in sorted(self._seconds.items()):
            total = 0
            for bound, count in zip((*map(str, _BOUNDS_S), "+Inf"), buckets, strict=True):
                total += count
                lines.append(render("bot_orch_request_seconds_bucket", {"route": route, "le": bound}, total))
            lines.append(render("bot_orch_request_seconds_sum", {"route": route}, self._sums[route]))
            lines.append(render("bot_orch_request_seconds_count", {"route": route}, total))
        for name, entries in sorted(gauges.items()):
            lines.append(f"# TYPE {name} gauge")
            lines += [render(name, labels, value) for labels, value in entries]
        return "\n".join(lines) + "\n"


def render(name: str, labels: Mapping[str, str], value: float) -> str:
    r"""One line.

    Examples
    --------
    >>> render("x_total", {"agent": 'a"b'}, 2.0)
    'x_total{agent="a\\"b"} 2'
    """
    number = str(int(value)) if float(value).is_integer() else repr(float(value))
    if not labels:
        return f"{name} {number}"
    inner = ",".join(f'{key}="{_escape(text)}"' for key, text in labels.items())
    return f"{name}{{{inner}}} {number}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

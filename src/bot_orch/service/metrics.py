"""Metrics in the text format of Prometheus: counters, histograms, and gauges read at the time of the scrape."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from bot_orch.agents.base import Attempt
from bot_orch.agents.endings import Ending
from bot_orch.service.operations.catalogue import CATALOGUE
from bot_orch.service.operations.histograms import CALL_BOUNDS_S, REQUEST_BOUNDS_S, Histogram

__all__ = ["Metrics", "merged", "render"]

Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Counters and histograms.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.count("bot_orch_decisions_total", agent="a")
    >>> print(metrics.text({}))
    # HELP bot_orch_decisions_total Decisions by chosen agent.
    # TYPE bot_orch_decisions_total counter
    bot_orch_decisions_total{agent="a"} 1
    <BLANKLINE>
    """

    def __init__(self) -> None:
        self._counters: dict[str, dict[Labels, float]] = defaultdict(lambda: defaultdict(float))
        self._histograms: dict[str, dict[Labels, Histogram]] = defaultdict(dict)

    def count(self, name: str, by: float = 1, **labels: str) -> None:
        """Add to a counter."""
        self._counters[name][tuple(labels.items())] += by

    def counted(self, name: str, label: str) -> dict[str, float]:
        """The values of a counter by one of its labels."""
        found: dict[str, float] = defaultdict(float)
        for labels, value in self._counters.get(name, {}).items():
            found[dict(labels).get(label, "")] += value
        return found

    def observe(self, name: str, value: float, bounds: tuple[float, ...], **labels: str) -> None:
        """Count a value in a histogram, which has these bounds."""
        series, key = self._histograms[name], tuple(labels.items())
        if key not in series:
            series[key] = Histogram(bounds)
        series[key].observe(value)

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count one request and its duration."""
        self._counters["bot_orch_requests_total"][(("route", route), ("status", str(status)))] += 1
        self.observe("bot_orch_request_seconds", seconds, REQUEST_BOUNDS_S, route=route)

    def attempt(self, attempt: Attempt) -> None:
        """Count one attempt at an agent: ending, tokens, dollars and times."""
        agent, ending, usage = attempt.agent, str(attempt.ending), attempt.usage
        self.count("bot_orch_attempts_total", agent=agent, ending=ending)
        self.count("bot_orch_agent_cost_usd_total", attempt.cost_usd, agent=agent)
        self.count("bot_orch_agent_tokens_total", usage.input_tokens, agent=agent, direction="input")
        self.count("bot_orch_agent_tokens_total", usage.output_tokens, agent=agent, direction="output")
        if attempt.ending is Ending.REFUSED_BUSY:
            self.count("bot_orch_diverted_total", agent=agent)
        if attempt.ending is not Ending.COMPLETED:
            self.count("bot_orch_agent_errors_total", agent=agent, kind=ending)
        if attempt.ending.meaning.attempted:
            self.observe("bot_orch_agent_call_seconds", attempt.elapsed_s, CALL_BOUNDS_S, agent=agent)
        if attempt.first_byte_s is not None:
            self.observe("bot_orch_agent_first_token_seconds", attempt.first_byte_s, CALL_BOUNDS_S, agent=agent)

    def absorb(self, other: Metrics, **labels: str) -> None:
        """Take over the series of another one, with further labels."""
        more = tuple(labels.items())
        for name, series in other._counters.items():
            for key, value in series.items():
                self._counters[name][more + key] += value
        for name, histograms in other._histograms.items():
            self._histograms[name].update({more + key: found for key, found in histograms.items()})

    def text(self, gauges: Mapping[str, Iterable[tuple[Mapping[str, str], float]]]) -> str:
        """All metrics in the text format of Prometheus."""
        lines: list[str] = []
        for name, series in sorted(self._counters.items()):
            lines += _head(name, "counter")
            lines += [render(name, dict(labels), value) for labels, value in sorted(series.items())]
        for name, histograms in sorted(self._histograms.items()):
            lines += _head(name, "histogram")
            for labels, histogram in sorted(histograms.items(), key=lambda entry: entry[0]):
                lines += _series(name, dict(labels), histogram)
        for name, entries in sorted(gauges.items()):
            lines += _head(name, "gauge")
            lines += [render(name, labels, value) for labels, value in entries]
        return "\n".join(lines) + "\n"


def merged(texts: Iterable[str]) -> str:
    r"""Metrics of several processes as one text: each series is in one of them.

    Examples
    --------
    >>> one, other = "# TYPE a counter\na 1\n# TYPE b gauge\nb 2\n", '# TYPE a counter\na{x="y"} 3\n'
    >>> print(merged([one, other]), end="")
    # TYPE a counter
    a 1
    a{x="y"} 3
    # TYPE b gauge
    b 2
    """
    heads: dict[str, list[str]] = {}
    series: dict[str, list[str]] = {}
    for text in texts:
        family, fresh = "", False
        for line in text.splitlines():
            if line.startswith("# "):
                family, before = line.split(" ", 3)[2], family
                fresh = family not in heads if family != before else fresh
                if fresh:
                    heads.setdefault(family, []).append(line)
            else:
                series.setdefault(family, []).append(line)
    return "\n".join(line for name, head in heads.items() for line in [*head, *series.get(name, [])]) + "\n"


def _head(name: str, kind: str) -> list[str]:
    known = CATALOGUE.get(name)
    return [*([] if known is None else [f"# HELP {name} {known[1]}"]), f"# TYPE {name} {kind}"]


def _series(name: str, labels: Mapping[str, str], histogram: Histogram) -> Iterator[str]:
    for bound, count in histogram.buckets():
        yield render(f"{name}_bucket", {**labels, "le": bound}, count)
    yield render(f"{name}_sum", labels, histogram.total)
    yield render(f"{name}_count", labels, histogram.count)


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

"""Metrics: their names and meanings, counters and histograms, and the text of ``/metrics``, by prometheus-client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from bot_orch.agents.base import Attempt
from bot_orch.agents.endings import Ending
from bot_orch.core.events import AttemptEnded, DecisionMade, Event, FeedbackGiven
from bot_orch.errors import MissingExtraError
from bot_orch.recent import Newest
from bot_orch.types import RewardRange

try:
    from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
    from prometheus_client.core import Metric
    from prometheus_client.parser import text_string_to_metric_families
except ImportError as _error:  # pragma: no cover
    raise MissingExtraError("the service", "service") from _error

Gauges = Mapping[str, Iterable[tuple[Mapping[str, str], float]]]
"""Values of each gauge by labels."""

_REQUEST_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_CALL_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0)  # people, too
_QUEUE_S = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0)
_REWARD = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
_MOST_DECISIONS = 4096  # the newest ones of a router, whose agent and token are known to later reports
_COUNTERS = {
    "bot_orch_passed_on_total": "Requests whose router another process owns: carried, passed_on, or nobody owns it.",
    "bot_orch_agent_cost_usd_total": "Dollars that attempts at an agent have cost.",
    "bot_orch_agent_errors_total": "Attempts at an agent that ended without a whole answer, by kind of ending.",
    "bot_orch_agent_tokens_total": "Tokens that an agent has read (input; from a cache: cached) and written (output).",
    "bot_orch_archived_events_total": "Events that this process has moved from the log to its archive.",
    "bot_orch_archive_failures_total": "Attempts to archive old events that have failed.",
    "bot_orch_attempts_total": "Attempts at an agent, by ending.",
    "bot_orch_decisions_total": "Decisions by chosen agent.",
    "bot_orch_diverted_total": "Calls that load kept from an agent: slots and line were full, or the wait ended.",
    "bot_orch_feedback_total": "Reported outcomes by effect.",
    "bot_orch_judgements_total": "Answers that a judge was asked about, by result.",
    "bot_orch_limited_requests_total": "Requests refused because of a limit of their token, by limit.",
    "bot_orch_model_replacements_total": "Answers by another model than an agent was asked for, or served by before.",
    "bot_orch_queue_events_total": "What happened in the queue of people, by event.",
    "bot_orch_later_answers_usd_total": "Dollars of answers after the first one of their round.",
    "bot_orch_requests_total": "Requests by route and status.",
    "bot_orch_rounds_total": "Rounds that look before they deliver, by agents asked and whether a later answer won.",
    "bot_orch_shadow_calls_total": "Calls of router.observe whose answers are compared and not served.",
    "bot_orch_token_cost_usd_total": "Dollars that attempts and reports cost, by token of the caller.",
}
_HISTOGRAMS = {
    "bot_orch_agent_call_seconds": ("Seconds of attempts at an agent that were made, whatever their ending.", _CALL_S),
    "bot_orch_agent_first_token_seconds": ("Seconds until the first part of an agent's answer.", _CALL_S),
    "bot_orch_overhead_seconds": (
        "Seconds of a chat that no agent took, at the process that owns its router.",
        _REQUEST_S,
    ),
    "bot_orch_queue_seconds": ("Seconds from a ticket's start until a person first claimed or answered it.", _QUEUE_S),
    "bot_orch_reward": ("Rewards learned by agent, as shares of their range, also those replaced later.", _REWARD),
    "bot_orch_request_seconds": ("Seconds from a request to the end of its answer, by route.", _REQUEST_S),
}
_GAUGES = {
    "bot_orch_budget_used": "Share of the dollars of the router's budget, or of a limited token, that is used.",
    "bot_orch_calls_in_flight": "Calls to an agent under way.",
    "bot_orch_circuit_state": "1 for the state of an agent's circuit breaker, 0 for the others.",
    "bot_orch_drift_alarms": "Alarms of the drift test of an agent's outputs so far; without an agent, of the tasks.",
    "bot_orch_guarantee_credit": "Loss that the guarantee allows so far.",
    "bot_orch_guarantee_held_back": "1 while an agent may not serve: the guarantee gives its tasks to the baseline.",
    "bot_orch_guarantee_loss_bound": "Upper bound of the loss against the guarantee's baseline so far.",
    "bot_orch_judge_bias": "Reward that audits subtract from an agent's estimate, at the newest decision.",
    "bot_orch_log_events": "Number of the last event folded.",
    "bot_orch_log_groups": "Groups of events committed.",
    "bot_orch_open_tasks": "Rounds of /v1/tasks under way.",
    "bot_orch_pending_decisions": "Decisions without an outcome.",
    "bot_orch_ready": "1 if the service accepts requests.",
    "bot_orch_spent_last_day_usd": "Dollars spent in the last 24 hours.",
}


CATALOGUE: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        **{name: ("counter", text) for name, text in _COUNTERS.items()},
        **{name: ("histogram", text) for name, (text, _) in _HISTOGRAMS.items()},
        **{name: ("gauge", text) for name, text in _GAUGES.items()},
    }
)
"""(type, meaning) by name."""


class Metrics:
    """Counters and histograms.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.count("bot_orch_decisions_total", agent="a")
    >>> print(exposition([metrics], {}))
    # HELP bot_orch_decisions_total Decisions by chosen agent.
    # TYPE bot_orch_decisions_total counter
    bot_orch_decisions_total{agent="a"} 1.0
    <BLANKLINE>
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._families: dict[str, Counter | Histogram] = {}
        self._series: dict[tuple[Any, ...], Any] = {}

    def count(self, name: str, by: float = 1, **labels: str) -> None:
        """Add to a counter."""
        self._one(name, labels).inc(by)

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Count a value in a histogram."""
        self._one(name, labels).observe(value)

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count one request and its duration."""
        self.count("bot_orch_requests_total", route=route, status=str(status))
        self.observe("bot_orch_request_seconds", seconds, route=route)

    def attempt(self, attempt: Attempt) -> None:
        """Count one attempt at an agent: ending, tokens, dollars and times."""
        agent, ending, usage = attempt.agent, str(attempt.ending), attempt.usage
        self.count("bot_orch_attempts_total", agent=agent, ending=ending)
        self.count("bot_orch_agent_cost_usd_total", attempt.cost_usd, agent=agent)
        self.count("bot_orch_agent_tokens_total", usage.input_tokens, agent=agent, direction="input")
        self.count("bot_orch_agent_tokens_total", usage.output_tokens, agent=agent, direction="output")
        if usage.cached_tokens:
            self.count("bot_orch_agent_tokens_total", usage.cached_tokens, agent=agent, direction="cached")
        if attempt.ending is Ending.REFUSED_BUSY:
            self.count("bot_orch_diverted_total", agent=agent)
        if attempt.ending is not Ending.COMPLETED:
            self.count("bot_orch_agent_errors_total", agent=agent, kind=ending)
        if attempt.ending.meaning.attempted:
            self.observe("bot_orch_agent_call_seconds", attempt.elapsed_s, agent=agent)
        if attempt.first_byte_s is not None:
            self.observe("bot_orch_agent_first_token_seconds", attempt.first_byte_s, agent=agent)

    def collect(self) -> Iterator[Metric]:
        """All families with their samples."""
        return iter(self._registry.collect())

    def _one(self, name: str, labels: dict[str, str]) -> Any:
        """One labelled series, cached because the library's ``labels`` is slower."""
        key = (name, *labels.items())
        found = self._series.get(key)
        if found is None:
            family = self._families.get(name)
            if family is None:
                family = self._families[name] = self._family(name, [*labels])
            found = self._series[key] = family.labels(**labels) if labels else family
        return found

    def _family(self, name: str, labels: list[str]) -> Counter | Histogram:
        if name in _HISTOGRAMS:
            text, bounds = _HISTOGRAMS[name]
            return Histogram(name, text, labels, buckets=bounds, registry=self._registry)
        return Counter(name, _COUNTERS[name], labels, registry=self._registry)


class EventMetrics:
    """Counts events of a router by the agent and token of their decision: rewards, and dollars by token.

    It remembers the newest 4096 decisions of this process. A reward of an older one is not counted, a cost has an
    empty token.
    """

    def __init__(self, metrics: Metrics, rewards: Callable[[], RewardRange] = RewardRange) -> None:
        self._metrics, self._rewards = metrics, rewards
        self._made = Newest[str, tuple[str, str]](_MOST_DECISIONS)  # agent and token by decision
        self._last: DecisionMade | None = None

    @property
    def biases(self) -> dict[str, float]:
        """The correction of judges by audits in the newest decision of this process, by agent."""
        if self._last is None or "bias" not in self._last.columns():
            return {}
        return dict(zip(self._last.agents, self._last.column("bias").tolist(), strict=True))

    def take(self, _time_us: int, event: Event) -> None:
        """Count an event that is about to be committed."""
        if isinstance(event, DecisionMade):
            self._last = event
            self._made[event.id] = event.agent, event.token
        elif isinstance(event, AttemptEnded):
            self._spend(event.decision_id, event.cost_usd)
        elif isinstance(event, FeedbackGiven):
            self._spend(event.decision_id, event.cost_usd or 0.0)
            agent = event.agent or self._made.get(event.decision_id, ("", ""))[0]
            if agent and event.reward is not None and event.effect in ("learned", "replaced"):
                self._metrics.observe("bot_orch_reward", self._rewards().unit(event.reward), agent=agent)

    def _spend(self, decision_id: str, usd: float) -> None:
        if usd:
            self._metrics.count("bot_orch_token_cost_usd_total", usd, token=self._made.get(decision_id, ("", ""))[1])


def exposition(counted: Iterable[Metrics], gauges: Gauges) -> str:
    """Counters, histograms and gauges in the Prometheus text format."""
    families: dict[str, Metric] = {}
    for metrics in counted:
        for family in metrics.collect():
            _add(families, family)
    for name, entries in gauges.items():
        gauge = Metric(name, _GAUGES[name], "gauge")
        for labels, value in entries:
            gauge.add_sample(name, dict(labels), value)
        _add(families, gauge)
    return _written(families)


def merged(texts: Iterable[str]) -> str:
    r"""Merge metrics of several processes into one text, summing common series.

    Examples
    --------
    >>> one, other = "# TYPE a counter\na_total 1\n# TYPE b gauge\nb 2\n", "# TYPE a counter\na_total 3\n"
    >>> [line for line in merged([one, other]).splitlines() if not line.startswith("#")]
    ['a_total 4.0', 'b 2.0']
    """
    families: dict[str, Metric] = {}
    for text in texts:
        for family in text_string_to_metric_families(text):
            _add(families, family)
    return _written(families)


def _add(families: dict[str, Metric], family: Metric) -> None:
    """Add the samples of a family, without the times at which its series began."""
    into = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
    known = {(sample.name, *sorted(sample.labels.items())): place for place, sample in enumerate(into.samples)}
    for sample in family.samples:
        if sample.name.endswith("_created"):
            continue
        place = known.get((sample.name, *sorted(sample.labels.items())))
        if place is None:
            into.samples.append(sample)
        else:
            into.samples[place] = sample._replace(value=into.samples[place].value + sample.value)


class _Families:
    """Interface of the library's exposition: anything with ``collect``."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _written(families: Mapping[str, Metric]) -> str:
    collector: Any = _Families(families[name] for name in sorted(families))
    text: str = generate_latest(collector).decode()
    return text

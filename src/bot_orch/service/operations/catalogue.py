"""Every metric of ``/metrics``: its type and what it means, said in the exposition's ``HELP`` lines."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["CATALOGUE"]

_COUNTERS = {
    "bot_orch_passed_on_total": "Requests for routers of other processes: carried, passed_on, or nobody owns it.",
    "bot_orch_agent_cost_usd_total": "Dollars that attempts at an agent have cost.",
    "bot_orch_agent_errors_total": "Attempts at an agent that ended without a whole answer, by kind of ending.",
    "bot_orch_agent_tokens_total": "Tokens that an agent has read (input) and written (output).",
    "bot_orch_archived_events_total": "Events that this process has moved from the log to its archive.",
    "bot_orch_archive_failures_total": "Attempts to archive old events that have failed.",
    "bot_orch_attempts_total": "Attempts at an agent, by ending.",
    "bot_orch_cache_hits_total": "Requests answered from the cache, without a decision or a call, by endpoint.",
    "bot_orch_decisions_total": "Decisions by chosen agent.",
    "bot_orch_diverted_total": "Calls that load kept from an agent: slots and line were full, or the wait ended.",
    "bot_orch_feedback_total": "Reported outcomes by effect.",
    "bot_orch_judgements_total": "Answers that a judge was asked about, by result.",
    "bot_orch_guardrail_refusals_total": "Requests and answers that a guardrail has refused, by side.",
    "bot_orch_limited_requests_total": "Requests refused because of a limit of their token, by limit.",
    "bot_orch_queue_events_total": "What happened in the queue of people, by event.",
    "bot_orch_requests_total": "Requests by route and status.",
    "bot_orch_shadow_calls_total": "Calls beside the chosen agent's, whose answers nobody sees.",
    "bot_orch_webhooks_total": "Alarms for webhooks by result: delivered, failed (after all tries), dropped.",
}
_HISTOGRAMS = {
    "bot_orch_agent_call_seconds": "Seconds of attempts at an agent that were made, whatever their ending.",
    "bot_orch_agent_first_token_seconds": "Seconds until the first part of an agent's answer.",
    "bot_orch_request_seconds": "Seconds from a request to the end of its answer, by route.",
}
_GAUGES = {
    "bot_orch_calls_in_flight": "Calls to an agent under way.",
    "bot_orch_circuit_state": "1 for the state of an agent's circuit breaker, 0 for the others.",
    "bot_orch_config_version": "Version of the shared configuration that a router runs.",
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
        **{name: ("histogram", text) for name, text in _HISTOGRAMS.items()},
        **{name: ("gauge", text) for name, text in _GAUGES.items()},
    }
)
"""(type, meaning) by name."""

"""Settings and kinds that went, and what to write instead: one line each, in the order of their names."""

from __future__ import annotations

import re

__all__ = ["instead_of"]

_INDEX = re.compile(r"\[\d+\]")

# The path of a setting without its indices, or "path=value" for a value that went.
_INSTEAD = {
    "agents.breaker": "remove it: a circuit opens after 3 failures in a row for 10 s, and for 20 s if it fails again",
    "agents.capabilities": "write lacks, context_tokens, interfaces or prefill at the agent itself",
    "agents.deployments": "write endpoints: [{base_url, api_key, model}], each asked if those before it failed",
    "agents.kind=subprocess": "write a function of kind python that calls subprocess",
    "agents.limits": "write timeout_s, first_byte_s and concurrency at the agent itself; others are fixed",
    "agents.price.per_image_usd": "remove it; a provider that bills images by the token reports their tokens",
    "agents.retry": "remove it: a call is tried twice, and other agents by router.attempts",
    "agents.settings": "write base_url, model, ... at the agent itself, system under params",
    "agents.shadow": "remove it; canary caps the share of a new agent, and router.observe compares answers",
    "cache": "remove it; a cache of answers belongs in front of the service, and an Idempotency-Key answers repeats",
    "cluster.serve": "remove it: on PostgreSQL the router has one owner at a time; see docs/how-to/postgresql.md",
    "guardrails": "check requests in the application or a proxy in front; name a judge in router.checks for answers",
    "judges.kind=implicit": "use kind python with a function; examples/judges.py has one that reads how answers end",
    "judges.kind=pairwise": "use kind llm, which judges each answer by itself",
    "judges.kind=program": "use kind python with a function that runs the program; examples/judges.py has one",
    "judges.kind=regex": "use kind python with a function that searches the answer; examples/judges.py has one",
    "judges.kind=unit_test": "use kind python with a function that runs the test; examples/judges.py has one",
    "judges.only": "let a python judge return None for other kinds of tasks: answer.kind",
    "judges.timeout_s": "remove it; a judge has 60 seconds for an answer",
    "limits.body_bytes": "remove it: a chat's body has 20 MB at most, other bodies a megabyte",
    "limits.client_timeout_s": "remove it: a client has 15 seconds for a head and for reading, more for a long body",
    "limits.connections": "remove it: 10 000 connections, less if the system allows fewer files",
    "limits.failed_logins": "remove it: an address has 20 wrong tokens a minute",
    "limits.idle_s": "remove it: a connection may wait 30 seconds for its next request",
    "limits.snapshot_tail_s": "remove it: a snapshot is due when folding takes a second",
    "model_list": "list the models under agents, as bot-orch quickstart shows",
    "name": "remove it; a service has one router",
    "queue": "remove it: a claim lasts 5 minutes unless it is renewed, and an answer is final",
    "router.alignment.memory": "remove it: the last 256 outputs of an agent count",
    "router.alignment.watch": "remove it: the drift test compares 32 outputs with the 96 before, at level .01",
    "router.budget.per_run_usd": "remove it; give the run a token with limits.usd_per_day",
    "router.budget.per_session_usd": "remove it; the application counts x-bot-orch-cost-usd of its sessions",
    "router.carry": "remove it; the next agent gets the request as it came",
    "router.combine": "remove it; answers vote, each with the weight of what is known of it",
    "router.hold": "remove it; checks look at answers that are not streamed",
    "router.max_calls": "set attempts; a round makes one call more than agents may be asked",
    "router.mode": "write router.observe: {baseline: ..., usd_per_day: ...} to observe, and nothing to serve",
    "router.pass_on": "remove it: content filters are passed on, long contexts unless another agent has a longer one",
    "router.shadow": "write router.observe: {baseline: ..., usd_per_day: ...}; every answer is judged by itself",
    "router.sticky_by": "remove it; with sticky_s a conversation stays, or the session that a request names",
    "routers": "run one service for each router, each with its own file and log; on PostgreSQL add ?stream=NAME",
    "tenants": "remove it; run one service for each application, each with its own file and log",
    "tokens.limits.tokens_per_minute": "remove it; limit requests_per_minute and usd_per_day",
    "tokens.limits.usd": "write usd_per_day",
    "tokens.limits.window_s": "remove it; usd_per_day counts the last 24 hours",
    "tokens.router": "remove it; a service has one router",
    "tokens.tenant": "remove it; run one service for each application, each with its own file and log",
    "traces": "remove it; set the environment variable OTEL_EXPORTER_OTLP_ENDPOINT",
    "webhooks": "remove it; load deploy/helm/bot-orch/alerts.yaml in Prometheus, and let Alertmanager notify",
}


def instead_of(where: str, value: object = None) -> str | None:
    """What to write instead of a setting, or of a value of it, that went; None if it never was one.

    Examples
    --------
    >>> instead_of("config.model_list")
    'list the models under agents, as bot-orch quickstart shows'
    >>> instead_of("config.agents[0].name") is None
    True
    """
    path = _INDEX.sub("", where).removeprefix("config.")
    return _INSTEAD.get(path if value is None else f"{path}={value}")

"""Model Context Protocol: a server whose tools decide, observe, explain and list agents."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from bot_orch.errors import BotOrchError, InvalidInputError, MissingExtraError, UnknownDecisionError
from bot_orch.router import Router
from bot_orch.types import Answer, Decision, Outcome, Task

try:
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
except ImportError as _error:  # pragma: no cover
    raise MissingExtraError("the MCP server", "mcp") from _error

if TYPE_CHECKING:
    from bot_orch.integrations.client import Client

__all__ = ["mcp_server"]

_REMEMBERED = 10_000
_OF_ANSWERS = ("decision_id", "check", "signal", "label", "key", "cost_usd")
_INSTRUCTIONS = """\
Routes tasks among agents. Before a task, call decide and give the task to the agent it names. Afterwards call observe
with the decision_id and a reward from 0 (useless) to 1 (right), so that later choices are better."""


class _LocalTools:
    """Tools over a router in this process. A call lasts from decide to observe, unless its time is reported."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._made: OrderedDict[str, tuple[Decision, float]] = OrderedDict()

    def decide(
        self, task: dict[str, Any], eligible: list[str] | None, *, seen: list[dict[str, Any]], attempts: int
    ) -> dict[str, Any]:
        answers = [self._answer(each) for each in seen]
        known = Task(**task | {"features": tuple(task["features"])})
        made = self._router.decide(known, eligible, seen=answers, attempts=attempts)
        self._made[made.id] = (made, time.monotonic())
        while len(self._made) > _REMEMBERED:
            self._made.popitem(last=False)
        found = {"decision_id": made.id, "agent": made.agent, "propensity": made.propensity}
        return found if attempts == 1 else {**found, "action": made.action}

    def _answer(self, said: dict[str, Any]) -> Answer:
        """What is known of an answer, by the decision that asked for it."""
        unknown = said.keys() - _OF_ANSWERS
        asked = self._made.get(said.get("decision_id", ""))
        if asked is None:
            raise InvalidInputError("seen", f"{said} names no decision of this server", "give decision_id and check")
        if unknown:
            raise InvalidInputError("seen", f"holds {sorted(unknown)}", f"use {', '.join(_OF_ANSWERS)}")
        fields = {name: value for name, value in said.items() if name != "decision_id"}
        return Answer(asked[0].agent, asked[0].id, **fields)

    def observe(self, decision_id: str, report: dict[str, Any]) -> dict[str, Any]:
        elapsed_s = report["elapsed_s"]
        if elapsed_s is None and decision_id in self._made:
            elapsed_s = time.monotonic() - self._made[decision_id][1]
        reason = None if report["completed"] else report["reason"] or "failed"
        outcome = Outcome(report["completed"], report["reward"], elapsed_s, reason, cost_usd=report["cost_usd"])
        self._router.observe(decision_id, outcome)
        return {"decision_id": decision_id, "recorded": True}

    def explain(self, decision_id: str) -> dict[str, Any]:
        found = [row for row in self._router.history() if row["decision"] == decision_id]
        if not found:
            raise UnknownDecisionError(decision_id)
        made = self._made.get(decision_id)
        return {"round": found[0], "decision": None if made is None else made[0].to_dict()}

    def agents(self) -> dict[str, Any]:
        rows, alarms = self._router.history(), self._router.drift_alarms()
        lines = []
        for name in self._router.agents:
            mine = [row for row in rows if row["agent"] == name]
            rewards = [row["reward"] for row in mine if row["reward"] is not None]
            mean = sum(rewards) / len(rewards) if rewards else None
            lines.append({"agent": name, "recent": len(mine), "mean_reward": mean, "alarms": alarms.get(name, 0)})
        return {"agents": lines}


class _RemoteTools:
    """Tools over a running service."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def decide(
        self, task: dict[str, Any], eligible: list[str] | None, *, seen: list[dict[str, Any]], attempts: int
    ) -> dict[str, Any]:
        known = {name: value for name, value in task.items() if value}
        made = self._client.decide(known, eligible=eligible, attempts=attempts, seen=seen)
        found = {"decision_id": made.id, "agent": made.agent, "propensity": made.propensity}
        return found if attempts == 1 else {**found, "action": made.action}

    def observe(self, decision_id: str, report: dict[str, Any]) -> dict[str, Any]:
        known = {name: value for name, value in report.items() if value is not None}
        answer: dict[str, Any] = _plain(self._client.observe(decision_id, **known))
        return {"decision_id": decision_id, "recorded": True, **answer}

    def explain(self, decision_id: str) -> dict[str, Any]:
        found: dict[str, Any] = _plain(self._client.explain(decision_id))
        return found

    def agents(self) -> dict[str, Any]:
        return {"agents": _plain(self._client.agents())}


def _plain(value: Any) -> Any:
    import msgspec

    return msgspec.to_builtins(value)


def _with_readable_errors(tool: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Turn our errors into errors of the tool, which the model can read."""

    @wraps(tool)
    def call(*given: Any, **named: Any) -> dict[str, Any]:
        try:
            return tool(*given, **named)
        except BotOrchError as error:
            raise ToolError(str(error)) from error

    return call


def mcp_server(source: Router | Client, *, name: str = "bot-orch") -> MCPServer[Any]:
    """A server over a router, or over the client of a running service; ``mcp_server(router).run()`` serves stdio."""
    tools = _LocalTools(source) if isinstance(source, Router) else _RemoteTools(source)
    server: MCPServer[Any] = MCPServer(name, instructions=_INSTRUCTIONS, log_level="WARNING")

    def decide(
        *,
        text: str = "",
        kind: str = "",
        features: list[float] | None = None,
        eligible: list[str] | None = None,
        attempts: int = 1,
        seen: list[dict[str, Any]] | None = None,
    ) -> dict[str, Any]:
        """Choose the agent for a task, by its text, kind or features; eligible restricts the choice.

        With attempts above 1 check each answer, then call decide again with the same task and attempts, and as seen the
        answers so far: decision_id, and of check, signal (0 to 1), label, key and cost_usd what is known. The action is
        then to ask the agent, or to accept its answer; observe the decision that accepts.
        """
        task = {"text": text or None, "kind": kind, "features": features or []}
        return tools.decide(task, eligible, seen=seen or [], attempts=attempts)

    def observe(
        decision_id: str,
        *,
        reward: float | None = None,
        completed: bool = True,
        reason: str | None = None,
        elapsed_s: float | None = None,
        cost_usd: float | None = None,
    ) -> dict[str, Any]:
        """Report what came of a decision: a reward in [0, 1], or completed=false with a reason such as timeout."""
        report = {"reward": reward, "completed": completed, "reason": reason, "elapsed_s": elapsed_s}
        return tools.observe(decision_id, report | {"cost_usd": cost_usd})

    def explain(decision_id: str) -> dict[str, Any]:
        """Why an agent was chosen: propensities and the terms of every score, and the outcome if it is known."""
        return tools.explain(decision_id)

    def agents() -> dict[str, Any]:
        """The agents that tasks can be given to."""
        return tools.agents()

    for tool in (decide, observe, explain, agents):
        server.add_tool(_with_readable_errors(tool))
    return server

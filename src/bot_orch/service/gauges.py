"""Values for ``/metrics`` that are read when they are asked for."""

from __future__ import annotations

from bot_orch.service.runtime import Runtime

__all__ = ["gauges_of"]


def gauges_of(runtime: Runtime) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Values for ``/metrics``."""
    writer, ledger = runtime.writer, runtime.ledger
    states = ("closed", "open", "half_open")
    circuit: list[tuple[dict[str, str], float]] = []
    for name, guard in runtime.guards.items():
        now = str(guard.breaker.state).replace("-", "_")
        circuit += [({"agent": name, "state": state}, float(now == state)) for state in states]
    return {
        "bot_orch_ready": [({}, float(runtime.ready and writer.fresh))],
        "bot_orch_log_events": [({}, float(ledger.seq))],
        "bot_orch_log_groups": [({}, float(writer.groups))],
        "bot_orch_pending_decisions": [({}, float(len(ledger.pending)))],
        "bot_orch_open_tasks": [({}, float(len(ledger.tasks)))],
        "bot_orch_spent_last_day_usd": [({}, ledger.spending.within(writer.now_us(), 86_400.0))],
        "bot_orch_circuit_state": circuit,
        **({"bot_orch_config_version": [({}, float(runtime.version))]} if runtime.version else {}),
        "bot_orch_calls_in_flight": [({"agent": n}, float(g.view().in_flight)) for n, g in runtime.guards.items()],
    }

"""Which synthetic numbers are predictions: nothing that was fitted to a cell is counted as one."""

from __future__ import annotations

from bot_orch.lab.environments.synthetic.settings import ABLATION, SETTINGS, declared
from bot_orch.lab.harness.tables import Basis
from bot_orch.lab.paper.synthetic.calibration import targets

__all__ = ["basis"]

#: BOT-Orch in the lambda ablation: noise and eta were fitted to its regret; net utility is the oracle's level minus it.
_REFITTED: dict[str, Basis] = {"oracle_regret": "fitted", "net_utility": "fitted", "best_agent_rate": "selected"}


def basis(environment: str, method: str) -> dict[str, Basis]:
    """Metrics of a method that are not predictions: Random's calibration targets, and what constants were fitted to."""
    if method == "random":
        return dict.fromkeys(targets(SETTINGS[environment]), "fitted")
    refitted = any(parameter.source == "ablation" for parameter in declared())
    if refitted and method == "bot-orch" and environment in ABLATION:
        return dict(_REFITTED)
    return {}

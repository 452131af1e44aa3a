"""Which synthetic numbers are predictions: nothing that was fitted to a cell is counted as one."""

from __future__ import annotations

from bot_orch.environments.synthetic.settings import SETTINGS, declared
from bot_orch.experiments.harness.tables import Basis
from bot_orch.experiments.paper.synthetic.calibration import targets

__all__ = ["basis"]

_ABLATION = "synthetic-iid"  # the half that constants of the source "ablation" were read off


def basis(environment: str, method: str) -> dict[str, Basis]:
    """Metrics of a method that are not predictions: Random's calibration targets, and what constants were read off."""
    if method == "random":
        return dict.fromkeys(targets(SETTINGS[environment]), "fitted")
    read_off = any(parameter.source == "ablation" for parameter in declared())
    if read_off and method == "bot-orch" and environment == _ABLATION:
        return dict.fromkeys(("net_utility", "oracle_regret", "best_agent_rate"), "selected")
    return {}

"""Conformance checks for plugins. Nothing in the package imports it."""

from bot_orch.testing.entrants import check_sees_only_chosen
from bot_orch.testing.policies import check_policy

__all__ = ["check_policy", "check_sees_only_chosen"]

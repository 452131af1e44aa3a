"""The policy ``auto``: its estimates, how it explores, what it remembers."""

from bot_orch.policies.auto.policy import Auto

__all__ = ["Auto"]

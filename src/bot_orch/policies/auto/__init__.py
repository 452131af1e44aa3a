"""The policy ``auto``: Gaussian-process reward estimates with coupled RandUCB exploration."""

from bot_orch.policies.auto.policy import Auto

__all__ = ["Auto"]

"""Policies: one file each. See :mod:`bot_orch.policies.base` for what a policy is."""

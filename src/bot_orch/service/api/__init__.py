"""Handlers for programs: decisions, feedback, tasks, the gateway, administration."""

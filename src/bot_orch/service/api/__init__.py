"""The HTTP API: decisions, feedback, tasks, the gateway, the queue, administration."""

"""Environments: streams of tasks with what every agent would have earned on them."""

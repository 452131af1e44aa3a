"""Experiments of the arena that ``bot-orch reproduce`` lists."""

"""Synthetic experiments that ``bot-orch reproduce`` lists."""

"""Triage experiments that ``bot-orch reproduce`` lists."""

"""Routing: eligible agents, decisions, whole rounds."""

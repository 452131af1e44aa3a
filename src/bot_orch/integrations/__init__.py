"""Adapters for other frameworks, and a client of the service; one module each, imported on use."""

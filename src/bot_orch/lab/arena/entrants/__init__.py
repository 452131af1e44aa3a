"""Entrants of the arena: every module here defines a list ``ENTRANTS`` and is discovered."""

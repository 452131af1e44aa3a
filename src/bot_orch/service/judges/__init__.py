"""Judges by kind: each returns a value in [0, 1] for an answer, or no opinion."""

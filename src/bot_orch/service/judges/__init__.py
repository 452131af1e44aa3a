"""Judges by kind: each gives an answer a number in [0, 1], or no opinion."""

"""Bandit replay of a matrix, and the signals a policy learns from."""

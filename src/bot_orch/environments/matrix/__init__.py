"""Outcome matrices: what every agent did on every task, from files of several formats."""

"""Sweeps: a user's grid of policies, environments, lambdas and rounds."""

"""Readings of what the paper leaves open, each run against each published table."""

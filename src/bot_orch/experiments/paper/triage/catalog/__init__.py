"""Entries of the report."""

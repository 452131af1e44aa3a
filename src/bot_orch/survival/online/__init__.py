"""Fits that take one outcome at a time."""

"""Figures of the theorem's items."""

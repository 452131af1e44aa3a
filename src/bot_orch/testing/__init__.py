"""Conformance checks for plugins, and faults to test with. Nothing in the package imports it."""

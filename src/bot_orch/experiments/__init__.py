"""Experiments: settings, runner, tables, figures, report."""

"""Judging in a running service: which answers are judged, whose value counts, audits."""

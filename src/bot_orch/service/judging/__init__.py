"""Judging in a running service: sampling of answers, ranks of judges, audits."""

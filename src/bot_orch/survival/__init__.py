"""Survival models, frailty and the survival reward."""

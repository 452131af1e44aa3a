"""Routing on a budget: the published table of ParetoBandit, and constraints in a drifting world."""

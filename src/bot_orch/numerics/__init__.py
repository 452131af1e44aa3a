"""Numerical parts of policies: choice rules, reward estimators, schedules, probabilities of being best."""

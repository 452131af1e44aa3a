"""Off-policy evaluation of logs: estimators, shadow policies, choice of lambda, export."""

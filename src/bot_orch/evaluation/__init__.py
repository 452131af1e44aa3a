"""Off-policy evaluation of logs: estimators, shadow policies, savings, import and export."""

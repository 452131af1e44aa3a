"""What a log says about policies that were not in charge: off-policy estimates, shadows, choice of lambda, export."""

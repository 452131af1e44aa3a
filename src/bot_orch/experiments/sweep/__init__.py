"""A user's own grid of policies, environments and lambdas."""

"""Writing the log: group commit, replicas that share a log, handover between them."""

"""The writer of the log, alone or as one of several replicas."""

"""Where a log is kept."""

"""Storage backends of the log."""

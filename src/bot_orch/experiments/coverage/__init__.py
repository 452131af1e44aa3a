"""Coverage of confidence distances."""

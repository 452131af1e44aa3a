"""A log in PostgreSQL: one writer at a time, determined by leases."""

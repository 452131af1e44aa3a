"""A log in PostgreSQL: one writer at a time, and leases that say which."""

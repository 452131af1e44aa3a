"""A log in PostgreSQL, shared by replicas."""

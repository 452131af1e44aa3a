"""A service with simulated agents and traffic."""

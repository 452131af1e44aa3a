"""Processes that share the router of a service: its ownership, and forwarding of requests to the owner."""

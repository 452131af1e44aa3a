"""Processes that share the routers of a service: ownership of routers, and forwarding of requests to the owner."""

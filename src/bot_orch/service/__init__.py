"""The service: decisions, feedback, whole rounds and an OpenAI-compatible gateway over HTTP, on a durable log."""

"""The service: decisions, feedback, whole rounds and an OpenAI-compatible gateway over HTTP, on a durable log."""

try:
    import msgspec as _msgspec  # noqa: F401
except ImportError as _error:  # pragma: no cover
    from bot_orch.errors import MissingExtraError as _MissingExtraError

    raise _MissingExtraError("the service", "service") from _error

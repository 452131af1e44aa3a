"""The append-only log of what happened, and what can be told from it: state, replay, off-policy evaluation."""

try:
    import msgspec as _msgspec  # noqa: F401
except ImportError as _error:  # pragma: no cover
    from bot_orch.errors import MissingExtraError as _MissingExtraError

    raise _MissingExtraError("the event log", "service") from _error

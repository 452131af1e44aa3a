"""The append-only event log: events, the state derived from them, verification, and storage."""

try:
    import msgspec as _msgspec  # noqa: F401
except ImportError as _error:  # pragma: no cover
    from bot_orch.errors import MissingExtraError as _MissingExtraError

    raise _MissingExtraError("the event log", "service") from _error

from bot_orch.core.events import Configured, DecisionMade, FeedbackGiven, record_decision, record_task
from bot_orch.log.evaluations import outcomes_in
from bot_orch.log.events import decode_event, encode_event
from bot_orch.log.ledger import Ledger, fold
from bot_orch.log.log import Log, Row
from bot_orch.log.stores.memory import MemoryLog
from bot_orch.log.stores.open import open_log
from bot_orch.log.stores.sqlite.log import SqliteLog
from bot_orch.log.verification import replay

__all__ = [
    "Configured",
    "DecisionMade",
    "FeedbackGiven",
    "Ledger",
    "Log",
    "MemoryLog",
    "Row",
    "SqliteLog",
    "decode_event",
    "encode_event",
    "fold",
    "open_log",
    "outcomes_in",
    "record_decision",
    "record_task",
    "replay",
]

"""When a snapshot is due: before the events since the last one take long to fold, as long as snapshots stay cheap."""

from __future__ import annotations

from bot_orch.log.ledger import Ledger

__all__ = ["is_due", "seconds_to_fold"]

_SHARE = 0.05  # of the time that events take


def seconds_to_fold(ledger: Ledger, after: int) -> float:
    """Seconds that folding the events behind ``after`` would take, as far as this process has seen."""
    taken = ledger.seq - ledger.folded_from
    return (ledger.seq - after) * ledger.spent_s / taken if taken > 0 else 0.0


def is_due(ledger: Ledger, saved_seq: int, *, every: int, tail_s: float) -> bool:
    """Whether to save a snapshot now; ``saved_seq`` is the last event of the last one.

    It is time after ``every`` events. It is time before that once folding the events since the last one would take
    ``tail_s``, if that is 20 times what the last one cost: snapshots take 5 % of the time that events take, and a
    smaller share of the time that requests take.
    """
    if not ledger.configured or ledger.seq <= saved_seq:
        return False
    if ledger.seq - saved_seq >= every:
        return True
    return seconds_to_fold(ledger, saved_seq) >= max(tail_s, ledger.increments.cost_s / _SHARE)

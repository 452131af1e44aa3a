"""Learning from outcomes without a reward.

:mod:`~bot_orch.core.completion.law`: when an agent completes, from censored times (Kaplan-Meier).
:mod:`~bot_orch.core.completion.model`: from an outcome to a lesson for the policy.
:mod:`~bot_orch.core.completion.silences`: recent decisions without a final reward; a late one replaces their lesson.
:mod:`~bot_orch.core.completion.patience`: how long to wait for an agent before asking another one.
"""

from bot_orch.core.completion.model import Completion, OutcomeEffect
from bot_orch.core.completion.silences import Silence

__all__ = ["Completion", "OutcomeEffect", "Silence"]

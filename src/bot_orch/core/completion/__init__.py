"""Learning from outcomes without a reward: completion within the patience.

:mod:`~bot_orch.core.completion.law` estimates when an agent completes, :mod:`~bot_orch.core.completion.model` turns an
outcome into a lesson for the policy, :mod:`~bot_orch.core.completion.silences` keeps decisions without a reward, so
that a reward may still replace what their silence taught.
"""

from bot_orch.core.completion.model import Completion, OutcomeEffect
from bot_orch.core.completion.silences import Silence

__all__ = ["Completion", "OutcomeEffect", "Silence"]

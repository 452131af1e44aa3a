"""BOT-Orch routes each task to one of several agents and learns from the outcomes.

Examples
--------
>>> from bot_orch import Orchestrator, Outcome, Task
>>> router = Orchestrator(["small-model", "large-model", "person"], seed=7)
>>> decision = router.decide(Task("ticket-1"))
>>> router.observe(decision.id, Outcome.completed(reward=0.9))
"""

import logging
from typing import TYPE_CHECKING, Any

from bot_orch._version import __version__
from bot_orch.core.alignment import Alignment, Reference, Watch
from bot_orch.core.constraints import Budget, Capacity, Deadline, FirstToken, Objective, Quality, Quota
from bot_orch.core.guarantee import Guarantee
from bot_orch.core.orchestrator import Orchestrator
from bot_orch.core.reward import BoundedReward, RewardModel, SurvivalReward
from bot_orch.errors import (
    BotOrchError,
    ConcurrentUseError,
    InvalidInputError,
    StateFormatError,
    UnknownDecisionError,
)
from bot_orch.policies.base import Policy
from bot_orch.policies.registry import available_policies, make_policy, register_policy
from bot_orch.transport.measures import Cloud, Gaussian, Labels, Samples
from bot_orch.types import Agent, Answer, Decision, Outcome, Task

if TYPE_CHECKING:
    from bot_orch.router import Router

logging.getLogger("bot_orch").addHandler(logging.NullHandler())  # silent until logging is configured

__all__ = [
    "Agent",
    "Alignment",
    "Answer",
    "BotOrchError",
    "BoundedReward",
    "Budget",
    "Capacity",
    "Cloud",
    "ConcurrentUseError",
    "Deadline",
    "Decision",
    "FirstToken",
    "Gaussian",
    "Guarantee",
    "InvalidInputError",
    "Labels",
    "Objective",
    "Orchestrator",
    "Outcome",
    "Policy",
    "Quality",
    "Quota",
    "Reference",
    "RewardModel",
    "Router",
    "Samples",
    "StateFormatError",
    "SurvivalReward",
    "Task",
    "UnknownDecisionError",
    "Watch",
    "__version__",
    "available_policies",
    "make_policy",
    "register_policy",
]


def __getattr__(name: str) -> Any:
    """Import the router lazily, because it imports asyncio."""
    if name == "Router":
        from bot_orch.router import Router

        return Router
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

"""``GET /v1/ab``: how the arms of a test do."""

from __future__ import annotations

from bot_orch.policies.registry import policy_name
from bot_orch.service.api.bodies import AbView, ArmView
from bot_orch.service.problems import Problem, Reply, json_reply
from bot_orch.service.routing.comparison import compare
from bot_orch.service.web.endpoint import Request

__all__ = ["show"]


async def show(request: Request) -> Reply:
    """``GET /v1/ab``."""
    found = await compare(request.runtime)
    if found is None:
        raise Problem(404, "no_test", "no test is under way; set router.ab")
    arms = {
        name: ArmView(
            policy=policy_name(found.test.a if name == "a" else found.test.b),
            decisions=sums.decisions,
            rewards=sums.rewards,
            mean_reward=sums.mean,
        )
        for name, sums in found.arms.items()
    }
    difference = found.difference()
    return json_reply(
        AbView(
            share=found.test.share,
            arms=arms,
            difference=None if difference is None else difference[0],
            interval=None if difference is None else list(difference[1:]),
        )
    )

"""Agents and a judge for kinds of prompts: the small one cannot prove."""

from bot_orch.agents import CallReply


def small(request):
    return CallReply("small")


def large(request):
    return CallReply("large")


def broken(request):
    if "prove" in request.plain():
        raise RuntimeError("it cannot prove")
    return CallReply("broken")


def right(answer):
    return float(answer.text == "large" or "prove" not in answer.question)

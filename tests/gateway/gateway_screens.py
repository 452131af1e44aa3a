"""Guardrails of the operator's own, as functions."""

import time


def no_secrets(seen):
    assert seen["when"] == "before" and seen["endpoint"] and seen["model"] == "auto"
    text = str(seen["messages"][-1]["content"])
    if "secret" in text:
        return {"refuse": "no secrets, please"}
    if "ann@" in text:
        return {"messages": [{"role": "user", "content": "[removed]"}]}
    return None


async def polite(seen):
    assert seen["when"] == "after" and seen["agent"]
    if "rude" in seen["text"]:
        return {"refuse": "that was rude"}
    return {"text": "softened"} if "harsh" in seen["text"] else None


def broken(seen):
    raise RuntimeError("no")


def slow(seen):
    time.sleep(0.3)

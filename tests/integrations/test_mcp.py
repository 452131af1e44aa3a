"""MCP: the real package's client calls the tools, in memory and over stdio; the log holds what happened."""

import asyncio
import json
from pathlib import Path

import pytest

pytest.importorskip("mcp.server.mcpserver")

from mcp import Client

from bot_orch import Router
from bot_orch.integrations.mcp import mcp_server
from bot_orch.log import DecisionMade, FeedbackGiven, open_log

SRC = Path(__file__).parents[2] / "src"


def talk(server, *calls):
    """Results of tool calls, in order; a call may depend on the results so far."""

    async def run():
        results = []
        async with asyncio.timeout(60), Client(server) as client:
            names = sorted(tool.name for tool in (await client.list_tools()).tools)
            for name, arguments in calls:
                given = arguments(results) if callable(arguments) else arguments
                results.append(await client.call_tool(name, given))
        return names, results

    return asyncio.run(run())


def events(path, kind):
    log = open_log(path)
    try:
        return [event for row in log.read() if isinstance(event := row.event(), kind)]
    finally:
        log.close()


def id_of(results):
    return {"decision_id": results[0].structured_content["decision_id"]}


def test_decide_observe_explain_and_agents(tmp_path):
    path = tmp_path / "router.sqlite"
    with Router(["small", "large"], "ucb1", path=path, floor=0.2) as router:
        names, results = talk(
            mcp_server(router),
            ("decide", {"text": "Where is my money?", "kind": "refund"}),
            ("observe", lambda done: id_of(done) | {"reward": 0.75, "cost_usd": 0.01}),
            ("explain", id_of),
            ("agents", {}),
        )
    assert names == ["agents", "decide", "explain", "observe"]
    assert not any(result.is_error for result in results)
    decided, _, explained, listed = (result.structured_content for result in results)
    (made,), (told,) = events(path, DecisionMade), events(path, FeedbackGiven)
    assert (made.id, made.agent, made.task.kind) == (decided["decision_id"], decided["agent"], "refund")
    assert decided["propensity"] == made.propensity == 0.5
    assert (told.decision_id, told.reward, told.cost_usd, told.effect) == (made.id, 0.75, 0.01, "learned")
    assert 0.0 < told.elapsed_s < 60.0, "measured from decide to observe"
    assert explained["round"]["reward"] == 0.75 and explained["decision"]["propensities"] == [0.5, 0.5]
    assert {line["agent"]: line["mean_reward"] for line in listed["agents"]}[made.agent] == 0.75


def test_a_timeout_and_a_cancelled_task_are_no_rewards(tmp_path):
    path = tmp_path / "router.sqlite"
    with Router(["a", "b"], path=path) as router:
        talk(
            mcp_server(router),
            ("decide", {"eligible": ["b"]}),
            ("observe", lambda done: id_of(done) | {"completed": False, "reason": "timeout", "elapsed_s": 30}),
        )
    (made,), (told,) = events(path, DecisionMade), events(path, FeedbackGiven)
    assert (made.agent, made.propensity) == ("b", 1.0)
    assert (told.completed, told.reward, told.reason, told.elapsed_s) == (False, None, "timeout", 30.0)


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("observe", {"decision_id": "never", "reward": 1.0}, "no pending decision 'never'"),
        ("decide", {"eligible": ["nobody"]}, "nobody"),
        ("explain", {"decision_id": "never"}, "never"),
        ("observe", {"reward": 1.0}, "decision_id"),
    ],
)
def test_mistakes_are_errors_of_the_tool(name, arguments, said):
    _, (result,) = talk(mcp_server(Router(["a", "b"])), (name, arguments))
    assert result.is_error and said in result.content[0].text
    assert "Traceback" not in result.content[0].text


def test_a_reward_out_of_range_names_the_remedy():
    _, results = talk(
        mcp_server(Router(["a", "b"])), ("decide", {}), ("observe", lambda done: id_of(done) | {"reward": 7.0})
    )
    assert results[1].is_error and "rescale rewards to [0, 1]" in results[1].content[0].text


def answers(request):
    """What a service would answer."""
    import httpx

    made = {"id": "d1", "agent": "a", "propensity": 0.25, "propensities": {"a": 0.25, "b": 0.75}, "terms": {}}
    agent = {"id": "a", "kind": "openai", "circuit": "closed", "available": True, "in_flight": 0, "concurrency": 4}
    found = {
        "/v1/decisions": made | {"policy": "ucb1", "state_seq": 0},
        "/v1/feedback": {"id": "f1", "decision_id": "d1", "effect": "learned"},
        "/v1/agents": [agent],
    }.get(request.url.path)
    wrong = {"error": {"message": "no decision 'never'", "code": "not_found"}}
    return httpx.Response(404, json=wrong) if found is None else httpx.Response(200, json=found)


def test_over_a_service():
    httpx, seen = pytest.importorskip("httpx"), []
    from bot_orch.integrations.client import Client as ServiceClient

    def handle(request):
        seen.append((request.url.path, json.loads(request.content or b"null")))
        return answers(request)

    with ServiceClient("http://127.0.0.1:1", transport=httpx.MockTransport(handle)) as client:
        _, (made, told, missing, listed) = talk(
            mcp_server(client),
            ("decide", {"text": "hello"}),
            ("observe", {"decision_id": "d1", "reward": 0.5}),
            ("explain", {"decision_id": "never"}),
            ("agents", {}),
        )
    assert made.structured_content == {"decision_id": "d1", "agent": "a", "propensity": 0.25}
    assert told.structured_content["recorded"] and told.structured_content["effect"] == "learned"
    assert missing.is_error and "no decision 'never'" in missing.content[0].text
    assert listed.structured_content["agents"][0]["circuit"] == "closed"
    assert seen[0] == ("/v1/decisions", {"task": {"text": "hello"}})
    assert seen[1][1]["reward"] == 0.5 and seen[1][1]["decision_id"] == "d1"


def test_steps_of_a_round():
    """An answer that fails its check leads to another agent; the decision that accepts takes the outcome."""
    router = Router(["small", "large"], seed=1)
    first = ("decide", {"text": "x", "attempts": 2})

    def second(results):
        seen = [{"decision_id": results[0].structured_content["decision_id"], "check": 0.0}]
        return {"text": "x", "attempts": 2, "seen": seen}

    def third(results):
        made = [each.structured_content["decision_id"] for each in results]
        seen = [{"decision_id": made[0], "check": 0.0}, {"decision_id": made[1], "check": 1.0}]
        return {"text": "x", "attempts": 2, "seen": seen}

    def done(results):
        return {"decision_id": results[-1].structured_content["decision_id"], "reward": 1.0}

    _, results = talk(mcp_server(router), first, ("decide", second), ("decide", third), ("observe", done))
    asked = [each.structured_content for each in results[:3]]
    assert [each["action"] for each in asked] == ["ask", "ask", "accept"]
    assert asked[2]["agent"] == asked[1]["agent"] != asked[0]["agent"]
    assert router.pending == ()


def test_an_answer_of_nobody_is_refused():
    _, (result,) = talk(mcp_server(Router(["a", "b"])), ("decide", {"attempts": 2, "seen": [{"check": 1.0}]}))
    assert result.is_error and "names no decision" in result.content[0].text

"""The typed client: what it asks, what it repeats, and that a repeat has no second effect."""

import asyncio

import httpx
import pytest

from bot_orch.integrations.client import AsyncClient, Client, ServiceError, UnreachableError
from bot_orch.log.verification import replay


class Swallowing(httpx.HTTPTransport):
    """Delivers every request, and loses the first ``lost`` answers."""

    def __init__(self, lost):
        super().__init__()
        self.lost, self.sent = lost, 0

    def handle_request(self, request):
        self.sent += 1
        answer = super().handle_request(request)
        if self.sent <= self.lost:
            answer.close()
            raise httpx.ReadError("the answer was lost", request=request)
        return answer


class AsyncSwallowing(httpx.AsyncHTTPTransport):
    def __init__(self, lost):
        super().__init__()
        self.lost, self.sent = lost, 0

    async def handle_async_request(self, request):
        self.sent += 1
        number = self.sent
        answer = await super().handle_async_request(request)
        if number <= self.lost:
            await answer.aclose()
            raise httpx.ReadError("the answer was lost", request=request)
        return answer


def at(service):
    return f"http://127.0.0.1:{service.port}"


def test_a_round(start):
    service = start()
    with Client(at(service)) as client:
        decision = client.decide({"id": "t", "kind": "k"}, session="s")
        assert decision.propensities[decision.agent] == decision.propensity
        told = client.observe(decision.id, reward=0.75, elapsed_s=0.5, cost_usd=0.01)
        assert (told.effect, told.duplicate) == ("learned", False)
        found = client.explain(decision.id)
        assert not found.pending and found.outcomes[0].reward == 0.75 and found.session == "s"
        assert {agent.id for agent in client.agents()} == set(decision.propensities)
        assert client.state().pending == 0
        done = client.do({"id": "u", "text": "hello"})
        assert done.status == "completed" and client.task(done.id).output == done.output
        assert [each.effect for each in client.credit("s", 0.5).credited] == ["revision"]


def test_a_lost_answer_is_asked_for_again_and_counts_once(start):
    service = start()
    transport = Swallowing(lost=2)
    with Client(at(service), transport=transport, wait_s=0.001) as client:
        decision = client.decide({"id": "t"})
        assert transport.sent == 3 and client.state().pending == 1
        transport.sent = 0
        told = client.observe(decision.id, reward=1.0)
        assert transport.sent == 3 and told.duplicate
        assert [each.effect for each in client.explain(decision.id).outcomes] == ["learned"]
        transport.sent = 0
        done = client.do({"id": "u", "text": "hello"})
        assert transport.sent == 3 and len(client.task(done.id).decisions) == 1


def test_the_asynchronous_client(start):
    service = start()

    async def play():
        transport = AsyncSwallowing(lost=1)
        async with AsyncClient(at(service), transport=transport, wait_s=0.001) as client:
            decisions = await asyncio.gather(*(client.decide({"id": str(number)}) for number in range(5)))
            assert len({each.id for each in decisions}) == 5 and transport.sent == 6
            await asyncio.gather(*(client.observe(each.id, reward=1.0) for each in decisions))
            assert (await client.state()).pending == 0
            assert not (await client.explain(decisions[0].id)).pending
            assert len(await client.agents()) == 2
            done = await client.do({"text": "hello"})
            assert (await client.task(done.id)).status == "completed"

    asyncio.run(play())


def test_refusals_are_told_at_once(start):
    service = start()
    with Client(at(service)) as client:
        with pytest.raises(ServiceError, match="404") as caught:
            client.explain("nobody")
        assert caught.value.status == 404
        with pytest.raises(ServiceError) as caught:
            client.decide({"features": ["x"]})
        assert caught.value.status == 422 and "features" in str(caught.value)


def answering(*statuses):
    """A transport that answers with these, and then with a list without agents."""
    left = list(statuses)

    def answer(request):
        if not left:
            return httpx.Response(200, json=[])
        return httpx.Response(left.pop(0), headers={"retry-after": "0"}, text="<html>busy</html>")

    return httpx.MockTransport(answer)


def test_what_is_repeated():
    for status in (429, 500, 502, 503, 504):
        with Client(transport=answering(status, status), retries=2) as client:
            assert client.agents() == []
        with (
            Client(transport=answering(status, status), retries=1) as client,
            pytest.raises(ServiceError, match="busy"),
        ):
            client.agents()
    with Client(transport=answering(403), retries=2) as client, pytest.raises(ServiceError, match="403"):
        client.agents()


def test_nobody_there():
    with (
        Client("http://127.0.0.1:1", retries=1, wait_s=0.001) as client,
        pytest.raises(UnreachableError, match="2 requests"),
    ):
        client.agents()


def test_steps_of_a_round(start):
    """The caller looks at answers and decides again; the decision that accepts takes the outcome."""
    service = start()
    with Client(at(service)) as client:
        task, seen, made = {"id": "t"}, [], []
        for check in (0.0, 1.0, None):
            made.append(client.decide(task, attempts=2, seen=seen))
            seen.append({"decision_id": made[-1].id, "check": check})
        assert [each.action for each in made] == ["ask", "ask", "accept"]
        assert made[2].agent == made[1].agent != made[0].agent
        assert client.observe(made[2].id, reward=1.0).effect == "learned"
        explained = client.explain(made[2].id)
        assert explained.round == [each.id for each in made] and len(explained.steps) == 3
        for wrong in (made[0].id, made[2].id, "01900000-0000-7000-8000-000000000000"):
            with pytest.raises(ServiceError, match=r"seen\[0\].decision_id"):
                client.decide(task, attempts=2, seen=[{"decision_id": wrong}])
    assert not service.runtime.ledger.pending and replay(service.runtime.writer.log).ok

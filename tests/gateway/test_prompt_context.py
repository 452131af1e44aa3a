"""A plain client, and prompts of two kinds: the router finds out which agent is good at which."""

import random
from pathlib import Path
from uuid import UUID

import pytest

from bot_orch.core.events import DecisionMade
from bot_orch.service.routing.requests import prompt_of

AGENTS = (
    "{id: coder, kind: python, path: 'gateway_agents:code'}",
    "{id: poet, kind: python, path: 'gateway_agents:verse'}",
)
ROUTER = "seed: 3, encoder: builtin"
WORDS = ("river", "harbour", "lantern", "orchard", "winter", "engine", "kettle", "meadow")
MARK = "the-launch-word-is-periwinkle"


def prompts(n, seed=1):
    """Prompts in random order, and the agent that is good at each."""
    draw = random.Random(seed)  # noqa: S311
    for number in range(n):
        word, other = draw.sample(WORDS, 2)
        if draw.random() < 0.5:
            yield f"Write def {word}(x): return x[{number}] + {other}(x)  # fix this {MARK}", "coder"
        else:
            yield f"A short poem about a {word} and the {other}, please. {MARK}", "poet"


def ask(chat, text, **more):
    made = chat.completions.with_raw_response.create(
        model="auto", messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}], **more
    )
    return made.headers["x-bot-orch-decision-id"], made.headers["x-bot-orch-agent"]


@pytest.fixture
def play(serve, client):
    """Plays rounds of a client that asks, looks at the answer and reports; whether each answer was good."""

    def run(rounds, router=ROUTER):
        service = serve(*AGENTS, router=router, policy="auto")
        chat, right = client(service).chat, []
        for text, good in prompts(rounds):
            decision, agent = ask(chat, text)
            right.append(agent == good)
            service.post("/v1/feedback", {"decision_id": decision, "reward": float(right[-1])})
        return service, right

    return run


def test_prompts_steer_a_plain_client(play):
    service, right = play(200)
    assert sum(right[-80:]) >= 68, "with the encoder"
    made = [row.event() for row in service.runtime.writer.log.read(0) if row.holds(DecisionMade)]
    assert {each.encoder for each in made} == {"words@1:64#70"}


def test_without_an_encoder_prompts_do_not_count(play):
    service, right = play(120, ROUTER.replace("builtin", "null"))
    assert sum(right) < 80, "a coin"
    assert service.runtime.ledger.router.settings.text is None


@pytest.mark.parametrize("how", ["chat", "stream", "task", "decision"])
def test_the_prompt_is_not_stored(serve, client, how):
    service = serve(*AGENTS, router=ROUTER, policy="auto")
    text = f"def f(x): return x  # {MARK}"
    if how in ("chat", "stream"):
        decision, _ = ask(client(service).chat, text, stream=how == "stream")
    elif how == "task":
        decision = service.post("/v1/tasks", {"task": {"text": text}}).json()["decision_id"]
    else:
        decision = service.post("/v1/decisions", {"task": {"text": text}}).json()["id"]
    service.post("/v1/feedback", {"decision_id": decision, "reward": 1.0})
    service.stop()
    path = service.config.database
    stored = b"".join(file.read_bytes() for file in path_and_siblings(path))
    assert any(form in stored for form in (decision.encode(), UUID(decision).bytes))
    assert MARK.encode() not in stored
    assert MARK.encode("utf-16-le") not in stored


def path_and_siblings(path):
    return sorted(Path(path).parent.glob(Path(path).name + "*"))


def test_which_text_counts():
    user, system = {"role": "user", "content": "first"}, {"role": "system", "content": "rules"}
    answer, parts = {"role": "assistant", "content": "hm"}, {"role": "user", "content": [{"type": "text", "text": "b"}]}
    assert prompt_of([system, user, answer, parts]) == "b\nfirst"
    assert prompt_of([system]) == "rules"
    image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:x"}}, 7, {"text": 3}]}
    assert prompt_of([image]) == ""
    assert prompt_of([{"role": "user", "content": None}]) == ""
    assert len(prompt_of([{"role": "user", "content": "x" * 15_000}] * 3)) <= 20_000

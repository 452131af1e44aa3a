"""Quickstart's file learns from thumbs on a part of the chats."""

import random

from remote import GOOD
from service_running import Running

from bot_orch.service.config import parse_config
from bot_orch.service.quickstart import EndpointFound, configuration

KINDS = ("Translate the word {} into French, number {}", "Write a Python function that sorts a list of {}, version {}")
SUBJECTS = ("river", "stone", "market", "window", "coffee", "paper", "train", "garden")


def test_thumbs_on_a_quarter_of_the_chats_teach_a_quickstart_file(endpoint, tmp_path):
    """Two models, each best for one kind of prompt: after 600 chats both kinds go where they should."""
    models = EndpointFound("local", "openai", endpoint.script(GOOD), models=("poet", "coder"))
    text = configuration([models], file="bot-orch.yaml").replace("port: 8080", "port: 0")
    text = text.replace("bot-orch.sqlite", str(tmp_path / "log.sqlite"))
    assert "success_reward" not in text
    rng, right = random.Random(3), ([], [])  # noqa: S311
    service = Running(parse_config(text))
    try:
        for number in range(600):
            kind = rng.randrange(2)
            prompt = KINDS[kind].format(rng.choice(SUBJECTS), number)
            asked = {"model": "auto", "messages": [{"role": "user", "content": prompt}]}
            answer = service.post("/v1/chat/completions", asked)
            fits = answer.headers["x-bot-orch-agent"] == ("poet", "coder")[kind]
            right[kind].append(fits)
            if rng.random() < 0.25:
                liked = float(rng.random() < (0.9 if fits else 0.3))
                report = {"decision_id": answer.headers["x-bot-orch-decision-id"], "reward": liked}
                assert service.post("/v1/feedback", report).json()["effect"] == "learned"
    finally:
        service.stop()
    assert all(sum(each[-50:]) >= 35 for each in right), [sum(each[-50:]) for each in right]

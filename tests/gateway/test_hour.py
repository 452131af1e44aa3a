"""docs/tutorial/hour.md with its files and commands alone: text, money, people, an old log, an outage."""

import collections
import importlib.util
import re
import threading
from pathlib import Path

import forked
import pytest
from service_running import Running, free_port

from bot_orch.service.config import parse_config

HOUR = Path(__file__).parents[2] / "examples" / "hour"


def program(name):
    spec = importlib.util.spec_from_file_location(f"hour_{name}", HOUR / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def command(*words, cwd):
    done = forked.command(*words, cwd=cwd, timeout=120)
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def models():
    """The three endpoints, each at a free port; one can be stopped and started again."""
    endpoints = program("endpoints")
    running = {}

    class Models:
        ports = endpoints.PORTS

        def start(self, name):
            running[name] = endpoints.start(name)
            threading.Thread(target=running[name].serve_forever, args=(0.01,), daemon=True).start()

        def stop(self, name):
            server = running.pop(name)
            server.shutdown()
            server.server_close()

    made = Models()
    for name in made.ports:
        made.ports[name] = free_port()
        made.start(name)
    yield made
    for name in list(running):
        made.stop(name)


@pytest.fixture
def config(models, tmp_path):
    """The file of the example, at these ports."""
    text = (HOUR / "bot-orch.yaml").read_text().replace("port: 8080", "port: 0")
    for name, port in (("small", 9001), ("code", 9002), ("large", 9003)):
        assert f":{port}/v1" in text
        text = text.replace(f":{port}/v1", f":{models.ports[name]}/v1")
    path = tmp_path / "bot-orch.yaml"
    path.write_text(text)
    return path


def test_text_money_people_and_an_outage(models, config):
    service = Running(
        parse_config(
            config.read_text().replace("hour.sqlite", ":memory:").replace("database: :memory:", 'database: ":memory:"')
        )
    )
    url = f"http://127.0.0.1:{service.port}"
    try:
        chats = program("chats")
        late = chats.run(url, 240)[120:]
        by_kind = {
            kind: collections.Counter(agent for each, agent in late if each == kind) for kind in ("greeting", "program")
        }
        assert by_kind["greeting"]["small"] >= 40 and by_kind["program"]["code"] >= 45, by_kind  # of 60 each
        assert by_kind["greeting"]["code"] <= 5 and by_kind["program"]["small"] <= 5, by_kind
        assert 0 < service.get("/v1/objective").json()["spent_last_day_usd"] <= 20

        share = program("tickets").run(url, 20)
        assert 0 < share <= 1
        assert share * 20 / 260 <= 0.2

        models.stop("code")
        found = command("validate", config, "--online", cwd=config.parent)
        assert found.returncode == 1 and re.search(r"(?m)^bot-orch: agent code: .*reached", found.stderr), found
        assert len(chats.run(url, 40)) == 40, "no chat fails"
        ill = {each["id"]: each for each in service.get("/v1/agents").json()}["code"]
        assert not ill["available"] and ill["reason"]
        models.start("code")
        assert command("validate", config, "--online", cwd=config.parent).returncode == 0
        assert service.post("/v1/admin/agents/code/reset", {}).status == 200
        again = collections.Counter(agent for kind, agent in chats.run(url, 40) if kind == "program")
        assert again["code"] >= 10, again
    finally:
        service.stop()


def test_an_old_log(tmp_path):
    columns = ("agent=model", "reward=thumbs_up", "cost_usd=dollars", "elapsed_s=seconds", "propensity=probability")
    done = command("import", HOUR / "old_router.csv", "--out", "old.sqlite", "--map", *columns, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = command("evaluate", "old.sqlite", "--policy", "logged", "agent:small", "agent:large", cwd=tmp_path)
    assert done.returncode == 0 and "agent:large" in done.stdout, done.stderr

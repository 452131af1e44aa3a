"""Judges with several routers, and across reloads: each router has its own bench, and changes hold for all of them."""

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from service_running import Running, free_port, until
from test_judges import chat, decision_of
from test_reload import call

from bot_orch.core.events import FeedbackGiven
from bot_orch.errors import InvalidInputError
from bot_orch.log.stores.open import open_log
from bot_orch.service.build import check
from bot_orch.service.config import load_config, parse_config

TEXT = """
version: 1
database: log.sqlite
listen: {port: PORT}
router: {policy: ucb1, seed: 5}
judges: TOP
agents: [{id: short, kind: python, path: "judging_fixtures:short"}]
routers:
  support:
    router: {policy: ucb1}
    agents: [{id: long, kind: python, path: "judging_fixtures:long"}]
    OWN
"""
LONG = '[{name: words, kind: python, settings: {path: "judging_fixtures:says_long"}}]'
OK = '[{name: words, kind: python, settings: {path: "judging_fixtures:says_ok"}}]'
ANY = '[{name: any, kind: python, settings: {path: "judging_fixtures:anything"}}, {name: thumbs, kind: thumbs}]'


@pytest.fixture
def files(tmp_path):
    """Writes a configuration file and starts a service with it."""
    path, running = tmp_path / "c.yaml", []
    level = logging.getLogger("bot_orch").level

    def write(top=LONG, own="", port=0):
        path.write_text(TEXT.replace("TOP", top).replace("OWN", own).replace("PORT", str(port)))

    def start():
        running.append(Running(load_config(path), read=lambda: load_config(path)))
        until(lambda: all(each.loaded for each in running[-1].runtime.peers.values()))
        return running[-1]

    yield write, start, path
    for each in running:
        each.stop()
    logging.getLogger("bot_orch").setLevel(level)  # a reload sets it


def values(service, path=""):
    """Judge, agent and value of everything that was judged in a router."""
    views = service.get(f"{path}/v1/judges").json()
    return [(view["name"], each["agent"], each["mean"]) for view in views for each in view["agents"]]


def ask(service, router):
    model = "auto" if router == "default" else f"auto:{router}"
    return decision_of(chat(service, model))


def test_judges_on_top_judge_every_router_in_its_own_log(files):
    write, start, path = files
    write()
    service = start()
    for router in ("default", "support"):
        ask(service, router)
    until(lambda: values(service) and values(service, "/r/support"))
    assert values(service) == [("words", "short", 0.0)]
    assert values(service, "/r/support") == [("words", "long", 1.0)]
    service.stop()
    for file, agent in (("log.sqlite", "short"), ("log.support.sqlite", "long")):
        log = open_log(path.parent / file)
        events = [event for row in log.read() if isinstance(event := row.event(), FeedbackGiven)]
        assert [(event.judge, event.agent) for event in events] == [("words", agent)]
        log.close()


def test_a_router_may_have_judges_of_its_own(files):
    write, start, _ = files
    write(LONG, f"judges: {ANY}\n    audit: {{rate: 1.0, by: caller}}")
    service = start()
    ask(service, "default")
    made = ask(service, "support")
    until(lambda: values(service) and values(service, "/r/support"))
    assert values(service) == [("words", "short", 0.0)]
    assert values(service, "/r/support") == [("any", "long", 1.0)]
    told = service.post("/v1/feedback", {"decision_id": made, "reward": 0.1, "audit": True}).json()
    assert told["effect"] == "audited", "the router that knows the decision"
    assert service.runtime.config.audit is None


@pytest.mark.parametrize("top", ["", "\njudges: [{name: all, kind: thumbs}]"])
def test_judges_of_the_first_of_several_routers_are_its_own(top):
    agents = "agents: [{id: a, kind: simulated}]"
    first = f"  one: {{judges: [{{name: mine, kind: thumbs}}], audit: {{rate: 0.5, by: caller}}, {agents}}}"
    parts = parse_config(f"version: 1{top}\nrouters:\n{first}\n  two: {{{agents}}}").split()
    assert [judge.name for judge in parts["one"].judges] == ["mine"] and parts["one"].audit.rate == 0.5
    assert [judge.name for judge in parts["two"].judges] == (["all"] if top else []) and parts["two"].audit is None


def test_mistakes_name_the_router():
    text = TEXT.replace("TOP", "[]").replace("PORT", "0")
    wrong = text.replace("OWN", "judges: [{name: x, kind: llm, settings: {agent: short}}]")
    with pytest.raises(InvalidInputError, match=r"config\.routers\.support\.judges\.x\.settings\.agent: 'short'"):
        check(parse_config(wrong))
    with pytest.raises(InvalidInputError, match=r"judges\[0\]\.rate: expected `float` <= 1.0"):
        parse_config(text.replace("OWN", "judges: [{name: x, kind: thumbs, rate: 2}]"))


def test_a_reload_changes_judges_of_all_routers(files):
    """Before, further routers kept the judges that they had started with."""
    write, start, _ = files
    write(LONG)
    service = start()
    ask(service, "support")
    until(lambda: values(service, "/r/support") == [("words", "long", 1.0)])
    write(OK)
    assert service.post("/v1/admin/reload").json() == {"changed": ["judges"], "after_restart": []}
    for router in ("default", "support"):
        ask(service, router)
    until(lambda: values(service) == [("words", "short", 1.0)])
    until(lambda: values(service, "/r/support") == [("words", "long", 0.5)])
    write(OK, f"judges: {ANY}")
    assert service.post("/v1/admin/reload").json()["changed"] == ["routers.support.judges"]
    ask(service, "support")
    until(lambda: ("any", "long", 1.0) in values(service, "/r/support"))
    write("[]")
    assert service.post("/v1/admin/reload").json()["changed"] == ["judges"]
    assert service.get("/v1/judges").json()[0]["kind"] == "former"


def test_a_reload_adds_audits_and_keeps_what_was_learned(files):
    write, start, _ = files
    write(LONG)
    service = start()
    first = ask(service, "default")
    until(lambda: service.runtime.ledger.router.judge_of(first))
    write(LONG[:-1] + ", " + OK[1:].replace("words", "strict") + "\naudit: {rate: 1.0, by: strict}")
    assert service.post("/v1/admin/reload").json()["changed"] == ["judges", "audit"]
    ask(service, "default")
    (view,) = until(lambda: [each for each in service.get("/v1/judges").json()[0]["agents"] if each["audited"]])
    assert (view["count"], view["audited"], view["bias"]) == (2, 1, -1.0)


def test_sighup_and_the_command_change_judges(files):
    write, _, path = files
    port = free_port()
    write(LONG, port=port)
    program = "import sys; from bot_orch.cli import main; sys.exit(main())"
    fixtures = str(Path(__file__).parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([fixtures, os.environ.get("PYTHONPATH", "")])}
    served = subprocess.Popen([sys.executable, "-c", program, "serve", str(path)], env=environment)
    try:

        def kinds():
            try:
                status, views = call(port, "GET", "/v1/judges")
            except OSError:
                return None  # not started yet
            return [each["kind"] for each in views] if status == 200 else None

        until(lambda: kinds() == ["python"])
        until(lambda: call(port, "GET", "/health/ready")[0] == 200)  # with the other router, too
        write("[{name: thumbs, kind: thumbs}]", port=port)
        served.send_signal(signal.SIGHUP)
        until(lambda: kinds() == ["thumbs"])
        write("[{name: shape, kind: json_schema, settings: {schema: {type: object}}}]", port=port)
        command = [sys.executable, "-c", program, "apply", str(path)]
        said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        assert "judges" in said and kinds() == ["json_schema"]
    finally:
        served.terminate()
        served.wait(30)

"""``bot-orch quickstart``: a gateway for the endpoints of the environment, tried with three chats."""

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest
from listed_models import KEY, endpoint
from service_running import PATIENCE_S, Running, free_port

from bot_orch.agents.prices import price_of, shipped_prices
from bot_orch.cli import main
from bot_orch.cli import quickstart as command
from bot_orch.errors import InvalidInputError
from bot_orch.log import outcomes_in
from bot_orch.service.config import load_config
from bot_orch.service.quickstart import LEARN_FROM, configuration, found, run, search

NO_SIGNAL = "no quality signal: nothing is learned about quality"
QUICK = ("--yes", "--once", "--no-browser", "--port", "0")


@pytest.fixture
def start(tmp_path, monkeypatch, capsys):
    """Runs the command in an environment without endpoints; returns status and output."""
    for name in tuple(os.environ):
        if name.startswith(("OPENAI_", "ANTHROPIC_", "AZURE_", "OLLAMA_")):
            monkeypatch.delenv(name)
    monkeypatch.setattr(found, "_OLLAMA", "127.0.0.1:1")
    monkeypatch.chdir(tmp_path)

    def begin(*words, status=0):
        assert main(["quickstart", *words]) == status
        said = capsys.readouterr()
        assert KEY not in said.out + said.err, "a key is never printed"
        return said.out + said.err

    return begin


def text(folder):
    made = (folder / "bot-orch.yaml").read_text()
    assert KEY not in made, "a key is never written"
    return made


def test_endpoints_of_the_environment_become_a_gateway(start, tmp_path, monkeypatch):
    with endpoint(("a-1", "a-1-embed")) as one, endpoint(("b-1",)) as two, endpoint(("c-1",), key="") as three:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", one.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", two.url.removesuffix("/v1"))
        out = start(*QUICK, "--endpoint", f"local={three.url}")
        chats = len(one.chats) + len(two.chats) + len(three.chats)
    assert chats == 3
    assert len(re.findall(r"\(propensity 0\.\d\d\): an answer", out)) == 3
    assert len(re.findall(r"decision [0-9a-f-]{36}, no reward yet", out)) == 3
    assert "chats: 3, failed: 0, learned from: 0" in out and NO_SIGNAL in out
    assert re.search(r"dashboard  http://127.0.0.1:\d+/", out)
    made = text(tmp_path)
    assert '"${OPENAI_API_KEY}"' in made and '"${ANTHROPIC_API_KEY}"' in made and "encoder: builtin" in made
    config = load_config(tmp_path / "bot-orch.yaml")
    assert [(each.id, each.kind) for each in config.agents] == [
        *[("local", "openai"), ("a-1", "openai"), ("b-1", "anthropic")]
    ]
    assert config.listen.port == 8080, "port 0 is for this run alone"
    assert (tmp_path / "bot-orch.schema.json").exists()
    with pytest.raises(InvalidInputError, match="holds no reward"):
        outcomes_in(tmp_path / "bot-orch.sqlite")


def test_without_endpoints_the_agents_are_simulated(start, tmp_path):
    out = start(*QUICK)
    assert "no endpoint to use: the agents are simulated" in out
    assert "failed: 0, learned from: 3" in out
    asked = re.findall(r"^   (small|large)-model \(", out, re.MULTILINE)
    assert len(asked) == 3
    assert {each.kind for each in load_config(tmp_path / "bot-orch.yaml").agents} == {"simulated"}


def test_models_of_known_providers_have_their_list_prices(tmp_path):
    """Others have none: a model of the same name at another host may cost anything."""
    url = "https://api.openai.com/v1"
    known = found.EndpointFound("openai", "openai", url, key="K", models=("gpt-4o-mini", "gpt-4o"))
    local = found.EndpointFound("local", "openai", "http://127.0.0.1:9/v1", models=("gpt-4o",))
    path = tmp_path / "bot-orch.yaml"
    path.write_text(configuration([known, local], file=path.name))
    prices = {each.id: each.price for each in load_config(path, environment={"K": KEY}).agents}
    for name in known.models:
        listed = price_of(url, name, shipped_prices())
        assert prices[name]["output_usd_per_million"] == listed.output_usd_per_million > 0.0
    assert not prices["local-gpt-4o"]


def test_simulated_agents_can_be_asked_for(start, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    assert "left out" not in start(*QUICK, "--simulated")


def test_endpoints_that_do_not_work_are_left_out_with_the_reason(start, monkeypatch):
    with endpoint(key="another") as wrong, endpoint(models_status=500) as broken, endpoint((), key="") as bare:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", wrong.url)
        monkeypatch.setenv("OLLAMA_HOST", f"127.0.0.1:{free_port()}")
        monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", bare.url)
        out = start(*QUICK, "--endpoint", f"broken={broken.url}", "--endpoint", f"bare={bare.url}")
    assert f"left out: OPENAI_BASE_URL ({wrong.url}): refuses the key in OPENAI_API_KEY" in out
    assert "cannot be reached" in out and "answers with status 500" in out
    assert "lists no models; name one" in out and "set AZURE_OPENAI_DEPLOYMENT" in out
    assert "the agents are simulated" in out


def test_one_model_alone_gets_a_variant_to_choose(start, tmp_path):
    with endpoint(("only",), key="") as one:
        out = start(*QUICK, "--endpoint", f"local={one.url}")
    assert "failed: 0" in out and "local-brief is the same model" in out
    small, brief = load_config(tmp_path / "bot-orch.yaml").agents
    assert (small.id, brief.id) == ("local", "local-brief") and brief.params["system"]


def test_models_and_keys_of_an_option(start, tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", KEY)
    monkeypatch.setenv("B_API_KEY", KEY)
    with endpoint(models_status=404) as one:
        words = ("--endpoint", f"a={one.url},m-1,MY_KEY", "--endpoint", f"b={one.url},m-1")
        assert "failed: 0" in start(*QUICK, *words)
    made = text(tmp_path)
    assert "${MY_KEY}" in made and "${B_API_KEY}" in made
    assert [each.id for each in load_config(tmp_path / "bot-orch.yaml").agents] == ["a", "b"]


def test_azure_and_ollama(monkeypatch):
    with endpoint(("base",)) as azure, endpoint(("llama", "qwen"), key="") as local:
        environment = {
            "AZURE_OPENAI_API_KEY": KEY,
            "AZURE_OPENAI_ENDPOINT": azure.url.removesuffix("/v1"),
            "AZURE_OPENAI_DEPLOYMENT": "mine",
            "OLLAMA_HOST": f"0.0.0.0:{local.server_port}",
        }
        seen = search(environment)
        assert azure.asked[0][0] == "/openai/v1/models"
    assert seen.left_out == ()
    assert [(each.name, each.models) for each in seen.found] == [*[("azure", ("mine",)), ("ollama", ("qwen", "llama"))]]


def test_an_ollama_that_listens_is_found(monkeypatch):
    with endpoint(("llama",), key="") as local:
        monkeypatch.setattr(found, "_OLLAMA", f"127.0.0.1:{local.server_port}")
        (seen,) = search({}).found
    assert (seen.name, seen.models) == ("ollama", ("llama",))


def test_the_three_questions(start, tmp_path, monkeypatch):
    answers, asked = iter(["b", "judge", "0"]), []

    def ask(question):
        asked.append(question)
        return next(answers)

    monkeypatch.setattr("builtins.input", ask)
    monkeypatch.setattr(command.sys.stdin, "isatty", lambda: True, raising=False)
    with endpoint(("m-a",), key="") as one, endpoint(("m-b", "m-c"), key="") as two:
        out = start("--once", "--no-browser", "--endpoint", f"a={one.url}", "--endpoint", f"b={two.url}")
        assert one.chats == []
    assert [each[:3] for each in asked] == ["1/3", "2/3", "3/3"] and "[a, b]" in asked[0]
    assert all(each in out for each in LEARN_FROM.values())
    config = load_config(tmp_path / "bot-orch.yaml")
    assert [each.id for each in config.agents] == ["m-c", "m-b"] and config.judges[1].kind == "llm"


@pytest.mark.parametrize("answers", [["z"], ["a", "answers"], ["a", "feedback", "x"]])
def test_an_answer_that_cannot_be_is_refused_in_one_line(answers, start, tmp_path, monkeypatch):
    left = iter(answers)
    monkeypatch.setattr("builtins.input", lambda _: next(left))
    monkeypatch.setattr(command.sys.stdin, "isatty", lambda: True, raising=False)
    with endpoint(("m-a",), key="") as one:
        out = start("--once", "--endpoint", f"a={one.url}", status=2)
    assert out.splitlines()[-1].startswith("bot-orch: ")
    assert not (tmp_path / "bot-orch.yaml").exists()


@pytest.mark.parametrize("learn_from", LEARN_FROM)
def test_every_way_to_learn_is_valid(learn_from, tmp_path):
    made = configuration([], learn_from=learn_from, file="c.yaml")
    assert "simulated" in made
    one = found.EndpointFound("a", "openai", "https://host/v1", key="K", models=("m 1", "M:2"))
    (tmp_path / "c.yaml").write_text(configuration([one], learn_from=learn_from, file="c.yaml", port=9000))
    config = load_config(tmp_path / "c.yaml", {"K": "x"})
    assert [each.id for each in config.agents] == ["m-1", "m-2"] and config.listen.port == 9000
    assert config.database == str(tmp_path / "c.sqlite")
    assert config.router.success_reward is None, "an answer is not right because it came"


@pytest.mark.parametrize(("learn_from", "told"), [("feedback", True), ("judge", False)])
def test_where_nothing_judges_answers_people_read_that_nothing_is_learned_about_quality(
    learn_from, told, start, tmp_path, capsys, caplog
):
    """Quickstart, validate and the log at start say so, and how to change that."""
    with endpoint(("m-1", "m-2"), key="") as one:
        out = start("--write", "--learn-from", learn_from, "--endpoint", f"a={one.url}")
        file = str(tmp_path / "bot-orch.yaml")
        assert main(["validate", file]) == 0
        checked = capsys.readouterr().err
        (tmp_path / "bot-orch.yaml").write_text(text(tmp_path).replace("port: 8080", "port: 0"))
        Running(load_config(tmp_path / "bot-orch.yaml")).stop()
    said = [each.fields["detail"] for each in caplog.records if each.message == NO_SIGNAL]
    for each in (out, checked, NO_SIGNAL + "".join(said) if said else ""):
        assert (NO_SIGNAL in each) == told
        assert all(way in each for way in ("/v1/feedback", "judge", "check")) or not told


def test_simulated_agents_judge_themselves(start):
    assert NO_SIGNAL not in start(*QUICK)


def test_an_existing_file_is_kept(start, tmp_path):
    (tmp_path / "bot-orch.yaml").write_text("mine")
    assert "exists; run it with: bot-orch serve bot-orch.yaml, or pass --force" in start(*QUICK, status=2)
    assert (tmp_path / "bot-orch.yaml").read_text() == "mine"
    start(*QUICK, "--force")
    assert "version: 1" in text(tmp_path)


def test_write_only_writes_a_file_that_is_valid(start, tmp_path, capsys):
    out = start("--write", "--yes")
    assert "next: bot-orch serve bot-orch.yaml" in out and "chats" not in out
    assert {each.name for each in tmp_path.iterdir()} == {"bot-orch.yaml", "bot-orch.schema.json"}, "nothing was served"
    assert "exists; " in start("--write", "--yes", status=2)
    assert main(["validate", "bot-orch.yaml"]) == 0
    assert "small-model (simulated)" in capsys.readouterr().out
    (tmp_path / "bot-orch.yaml").write_text(text(tmp_path).replace("encoder:", "encodr:"))
    assert main(["validate", "bot-orch.yaml"]) == 2
    assert "did you mean 'encoder'?" in capsys.readouterr().err


def test_write_needs_no_network_where_models_are_named(start, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{free_port()}/v1")
    assert "cannot be reached" in start("--write", "--yes")
    monkeypatch.setenv("OPENAI_MODEL", "m-1")
    start("--write", "--yes", "--force", "--endpoint", f"local=http://127.0.0.1:{free_port()}/v1,m-2")
    agents = load_config(tmp_path / "bot-orch.yaml").agents
    assert [(each.id, each.model) for each in agents] == [("local", "m-2"), ("m-1", "m-1")]


def test_chats_that_fail_are_told(start):
    with endpoint(("m",), key="", chat_status=500) as broken:
        out = start(*QUICK, "--endpoint", f"a={broken.url}", status=1)
    assert out.count("   failed: ") == 3 and "failed: 3" in out


def test_an_endpoint_that_cannot_be_an_agent_leaves_no_file(start, tmp_path):
    with endpoint(models_status=404) as one:
        out = start(*QUICK, "--endpoint", f"big={one.url}/chat/completions,m", status=2)
    assert "config.agents" in out and "wrote" not in out
    assert not list(tmp_path.iterdir())


def test_a_port_in_use_is_one_line(start, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        out = start("--yes", "--once", "--port", str(port), status=2)
    assert f"--port: 127.0.0.1:{port} cannot be used" in out.splitlines()[-1]
    assert not (tmp_path / "bot-orch.yaml").exists(), "nothing is written"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("nonsense", "--endpoint: is nonsense; write name=https://host/v1"),
        ("a=ftp://host", "--endpoint: is 'ftp://host'"),
        ("a=http://host/v1,m,NO_SUCH_VARIABLE", "names the variable NO_SUCH_VARIABLE, which is not set"),
    ],
)
def test_options_with_a_mistake(given, said, start):
    assert said in start(*QUICK, "--endpoint", given, status=2)
    assert "is there twice" in start(*QUICK, *2 * ("--endpoint", "a=http://127.0.0.1:1/v1"), status=2)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("OPENAI_BASE_URL", "not a url", "OPENAI_BASE_URL: holds characters"),
        ("OPENAI_BASE_URL", "file:///etc", "OPENAI_BASE_URL: is 'file:///etc'"),
        ("OLLAMA_HOST", "host:port", "OLLAMA_HOST: is host:port"),
    ],
)
def test_variables_with_a_mistake(name, value, said, start, monkeypatch):
    monkeypatch.setenv(name, value)
    assert said in start(*QUICK, status=2).splitlines()[-1]


def test_it_serves_until_ctrl_c(tmp_path):
    words = [sys.executable, "-m", "bot_orch", "quickstart", "--simulated", "--yes", "--port", "0", "--no-browser"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        lines = []
        while not (lines and lines[-1].startswith("stop with Ctrl-C")):
            lines.append(process.stdout.readline())
            assert lines[-1], process.stderr.read()
        (dashboard,) = re.findall(r"dashboard  (\S+)", "".join(lines))
        with urllib.request.urlopen(dashboard, timeout=PATIENCE_S) as page:  # noqa: S310
            assert b"Dashboard" in page.read()
        process.send_signal(signal.SIGINT)
        rest, error = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, error) == (0, "")
    assert rest == "stopped; go on with: bot-orch serve bot-orch.yaml\n"


def test_a_browser_is_opened_where_there_is_one(start, monkeypatch):
    opened = []

    def browse(url):
        opened.append(url)
        os.kill(os.getpid(), signal.SIGINT)  # the user ends it

    monkeypatch.setattr(run.webbrowser, "open", browse)
    monkeypatch.setattr(run.webbrowser, "get", lambda: None)
    monkeypatch.setenv("DISPLAY", ":0")
    out = start("--yes", "--simulated", "--port", "0")
    assert opened == [f"http://127.0.0.1:{re.search(r'dashboard  http://127.0.0.1:([0-9]+)', out)[1]}"]
    monkeypatch.delenv("DISPLAY")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert not run._has_browser() or sys.platform != "linux"


def test_without_the_extra_nothing_is_written(tmp_path):
    code = "import sys; sys.modules['aiohttp'] = None; from bot_orch.cli import main; sys.exit(main())"
    words = [sys.executable, "-c", code, "quickstart", *QUICK]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("pip install 'bot-orchestrator[service]'\n") and done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []

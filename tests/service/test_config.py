"""Strict configuration: every mistake is named, with what to do about it."""

import json
import re
import subprocess
import sys

import pytest

from bot_orch import Orchestrator
from bot_orch.cli import main
from bot_orch.errors import InvalidInputError
from bot_orch.service.build import check, make_orchestrator
from bot_orch.service.config import load_config, parse_config

MINIMAL = "version: 1\nagents: [{id: a, kind: simulated}]\n"
MISTAKES = {
    "rooter: {}": "config.rooter: is not a setting; did you mean 'router'?",
    "router: {lamda: 1}": "config.router.lamda: is not a setting; did you mean 'lambda'?",
    "router: {floor: 2}": "config.router.floor: expected `float` <= 1.0",
    "router: {lambda: often}": "config.router.lambda",
    "router: {lambda: -1}": "config.router.lambda: is -1",
    "router: {alignment: {geometry: {name: scalars}, reference: b}}": "alignment.reference: 'b' is not an agent",
    "router: {alignment: {reference: {source: task}}}": "config.router.alignment.reference: expected `str`",
    "router: {alignment: {memory: {mode: all}}}": "config.router.alignment.memory: is not a setting; remove it",
    "router: {floor: abc}": "config.router.floor: expected `float`",
    "router: {rules: [{pin: b}]}": "'b' is not an agent",
    "router: {rules: [{pin: aa}]}": "did you mean 'a'",
    "tokens: [{name: x, scopes: [decide]}]": "needs one of env and sha256",
    "tokens: [{name: x, scopes: [deside], env: X}]": "config.tokens",
    "tokens: [{name: x, scopes: [decide], sha256: abc}]": "64 hex digits",
    "listen: {port: 99999}": "config.listen.port",
    "listen: {port: 80}\nlisten: {port: 81}": "is given twice",
    "database: ${NOT_SET_ANYWHERE}": "needs the environment variable NOT_SET_ANYWHERE",
    "version: 2": "given twice",
    "- a": "config",
    "x: [": "is not YAML",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_are_named(text):
    with pytest.raises(InvalidInputError, match=re.escape(MISTAKES[text])):
        parse_config(MINIMAL + text, {})


@pytest.mark.parametrize(
    ("agent", "problem"),
    [
        ("{id: a, kind: simulatd}", "choose from openai"),
        ("{id: a, kind: simulated, params: {qualty: 1}}", "did you mean 'quality'"),
        ("{id: a, kind: simulated, params: {quality: 7}}", "quality"),
        ("{id: a, kind: simulated, concurency: 1}", "did you mean 'concurrency'"),
        ("{id: a, kind: simulated, limits: {total_s: 1}}", "timeout_s"),
        ("{id: a, kind: subprocess}", "a function of kind python"),
        ("{id: a, kind: simulated, model: m}", "config.agents.a.model: is nothing for an agent of kind simulated"),
        ("{id: a, kind: simulated, price: {per_call_usd: -1}}", "per_call_usd"),
        ("{id: a, kind: openai}", "config.agents.a.base_url"),
        ("{id: a, kind: openai, base_url: 'ftp://host/', model: m}", "write https://host/path"),
        ("{id: a, kind: simulated, profile: {kind: nothing}}", "measure.kind"),
    ],
)
def test_mistakes_in_agents_are_named(agent, problem):
    with pytest.raises(InvalidInputError, match=problem):
        check(parse_config(f"version: 1\nagents: [{agent}]"))


@pytest.mark.parametrize(
    ("alignment", "problem"),
    [
        ("{}", "config.router.alignment: needs one of latency_target_s and geometry"),
        ("{latency_target_s: 0}", "config.router.alignment.lateness.target_s: is 0"),
        ("{geometry: {name: lables}}", "config.router.alignment.geometry.name: is 'lables'"),
    ],
)
def test_mistakes_in_alignment_are_named(alignment, problem):
    with pytest.raises(InvalidInputError, match=re.escape(problem)):
        check(parse_config(f"{MINIMAL}router: {{alignment: {alignment}}}"))


@pytest.mark.parametrize(
    "alignment",
    [
        "{latency_target_s: 5}",
        "{geometry: {name: scores}}",
        "{geometry: {name: labels, labels: 2}, reference: accepted}",
        "{geometry: {name: labels, labels: 2}, reference: tasks}",
        "{geometry: {name: sliced, dimension: 3}, reference: a}",
    ],
)
def test_every_kind_of_reference_can_be_configured(alignment):
    router = make_orchestrator(parse_config(f"{MINIMAL}router: {{alignment: {alignment}}}"))
    assert router.alignment is not None and router.lambda_ == "auto"
    assert Orchestrator.from_json(router.to_json()).fingerprint() == router.fingerprint()


@pytest.mark.parametrize(
    "line",
    [
        "params: {password: 'abc'}",
        "params: {key: 'abc'}",
        "params: {nested: {secret: 'abc'}}",
        "headers: {Authorization: 'Bearer abc'}",
        "headers: {x-api-key: 'abc'}",
        "params: {apikey: 'abc'}",
        "params: {passphrases: ['abc']}",
        "params: {access_token: 'abc'}",
    ],
)
def test_secrets_anywhere_in_settings_are_refused(line):
    text = f"version: 1\nagents: [{{id: a, kind: simulated, {line}}}]"
    with pytest.raises(InvalidInputError, match="holds a secret in plain text; put it into the environment"):
        parse_config(text, {})
    given = text.replace("abc", "${A_SECRET}")
    assert "from-outside" in str(parse_config(given, {"A_SECRET": "from-outside"}).agents[0])


def test_words_that_only_resemble_secrets_are_not_refused():
    settings = "{monkey: a, keyboard: b, stop_tokens: ['</s>'], tokenizer: c, max_tokens: 5}"
    assert parse_config(f"version: 1\nagents: [{{id: a, kind: simulated, params: {settings}}}]", {}).agents


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "agents: [A], router: {midstream: resume}",
            "config.router.midstream: .*; choose from continue, error, restart",
        ),
        ("agents: [A], tokens: [{name: t, scopes: [none]}]", r"tokens\[0\]\.scopes\[0\]: .*; choose from .*admin"),
        (
            "agents: [{id: a, kind: simulated, prefill: x}]",
            r"agents\[0\].prefill: .* from .*message, none",
        ),
        ("agents: [A, A]", "holds the id 'a' twice"),
        ("model_list: [A]", "config.model_list: is not a setting; list the models under agents"),
        ("log_level: info", "config.agents: is missing; .*bot-orch quickstart writes"),
        ("agents: [A], log_level: 3", "bot-orch validate --schema"),
    ],
)
def test_a_mistake_comes_with_its_remedy(text, said):
    text = text.replace("A", "{id: a, kind: simulated}")
    with pytest.raises(InvalidInputError, match=said):
        check(parse_config(f"{{version: 1, {text}}}"))


def test_a_file_that_is_missing_comes_with_its_remedy(tmp_path, capsys):
    assert main(["validate", str(tmp_path / "no.yaml")]) == 2
    assert "no.yaml: does not exist; name another file, or write one: bot-orch quickstart" in capsys.readouterr().err


def test_secrets_are_not_written_down():
    agent = "{id: a, kind: openai, base_url: 'https://x.example/v1', model: m, api_key: KEY}"
    text = f"version: 1\nagents: [{agent}]"
    with pytest.raises(InvalidInputError, match="holds a secret in plain text"):
        parse_config(text.replace("KEY", "sk-123"), {})
    with pytest.raises(InvalidInputError, match="environment variable MY_KEY"):
        parse_config(text.replace("KEY", "'${MY_KEY}'"), {})
    config = parse_config(text.replace("KEY", "'${MY_KEY}'"), {"MY_KEY": "sk-123"})
    assert config.agents[0].api_key == "sk-123"


def test_paths_are_taken_from_the_file(tmp_path):
    (tmp_path / "c.yaml").write_text(MINIMAL)
    assert load_config(tmp_path / "c.yaml").database == str(tmp_path / "bot-orch.sqlite")
    with pytest.raises(InvalidInputError, match="does not exist"):
        load_config(tmp_path / "none.yaml")


def test_a_log_of_the_quickstart_is_sound(tmp_path, capsys):
    log, file = tmp_path / "demo.sqlite", str(tmp_path / "demo.yaml")
    assert main(["quickstart", file, "--simulated", "--yes", "--once", "--port", "0"]) == 0
    assert "failed: 0" in capsys.readouterr().out
    assert main(["replay", str(log), "--quiet"]) == 0
    assert "different: 0" in capsys.readouterr().out
    status = main(["evaluate", str(log), "--policy", "uniform", "--min-effective", "1"])
    assert ("DR" if status == 0 else "refused") in capsys.readouterr().out
    assert main(["evaluate", str(log), "--policy", "uniform", "--min-effective", "5000"]) == 1
    assert "refused" in capsys.readouterr().out
    assert main(["export", str(log), str(tmp_path / "x.jsonl"), "--events"]) == 0
    assert main(["export", str(log), str(tmp_path / "x.jsonl")]) == 2
    assert json.loads((tmp_path / "x.jsonl").read_text().splitlines()[0])["kind"] == "configured@1"


def test_importing_the_package_stays_light():
    code = "import bot_orch, sys; print([m for m in ('msgspec', 'starlette', 'yaml', 'aiohttp') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"

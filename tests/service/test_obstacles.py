"""What keeps ``serve`` from starting, ``validate`` finds, each with its remedy."""

import os
import sys

import pytest
from forked import command

from bot_orch.cli import main
from bot_orch.service.config import parse_config
from bot_orch.service.objective import dollar_weight, idle_weight
from bot_orch.service.quickstart import EndpointFound, configuration

AGENTS = "agents: [{id: a, kind: simulated}]\n"


@pytest.fixture
def file(tmp_path):
    """Writes a configuration."""

    def write(text=AGENTS, database="log.sqlite", port=0):
        path = tmp_path / "c.yaml"
        path.write_text(f"version: 1\ndatabase: {database}\nlisten: {{port: {port}}}\n{text}")
        return str(path)

    return write


def refused(capsys, path, *words, part, serves=True):
    """Both refuse a file, and say why; where not ``serves``, ``test_start.py`` has it."""
    if serves:
        done = command("serve", path, *words)
        assert done.returncode == 2 and part in done.stderr, done.stderr
    assert main(["validate", path, *words]) == 2
    said = capsys.readouterr()
    assert part in said.err and said.err.startswith("bot-orch: ") and "; " in said.err, said


def test_a_host_that_others_reach_without_tokens(file, capsys):
    refused(capsys, file(), "--host", "0.0.0.0", part="there are no tokens")  # noqa: S104


@pytest.mark.parametrize("endpoints", [True, False])
def test_what_a_quickstart_file_needs_in_a_container(endpoints, tmp_path, capsys, monkeypatch):
    found = [EndpointFound("o", "openai", "https://host.example/v1", models=("a", "b"))] if endpoints else []
    text = configuration(found, file="c.yaml").replace("port: 8080", "port: 0")
    path = tmp_path / "c.yaml"
    path.write_text(text)
    assert main(["validate", str(path)]) == 0
    said = capsys.readouterr().out
    assert "--host 0.0.0.0" in said and "tokens: [{name: app, scopes: [admin], env: BOT_ORCH_TOKEN}]" in said
    assert main(["validate", str(path), "--host", "0.0.0.0"]) == 2  # noqa: S104
    assert "tokens: [{name: app, scopes: [admin], env: BOT_ORCH_TOKEN}]" in capsys.readouterr().err
    path.write_text(text.replace("# tokens:", "tokens:"))
    assert main(["validate", str(path), "--host", "0.0.0.0"]) == 2  # noqa: S104
    assert "BOT_ORCH_TOKEN" in capsys.readouterr().err, "the variable is not set"
    monkeypatch.setenv("BOT_ORCH_TOKEN", "a-secret-of-many-characters-0123456789")
    assert main(["validate", str(path), "--host", "0.0.0.0"]) == 0  # noqa: S104


def test_a_database_that_cannot_be_one(file, tmp_path, capsys):
    (tmp_path / "notes").write_text("not a database, and long enough to tell" * 10)
    refused(capsys, file(database="notes"), part="is not a log", serves=False)
    (tmp_path / "folder").mkdir()
    assert main(["validate", file(database="folder")]) == 2
    assert main(["validate", file(database="notes/log.sqlite")]) == 2, "a folder that is a file"


def test_a_database_without_the_right_to_write(file, tmp_path, capsys, monkeypatch):
    (tmp_path / "log.sqlite").write_bytes(b"")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    refused(capsys, file(), part="log.sqlite cannot be written", serves=False)


def test_an_access_log_in_no_folder(file, capsys):
    refused(capsys, file(AGENTS + "access_log: absent/access.log\n"), part="config.access_log")


def test_traces_without_the_extra(file, capsys, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("opentelemetry")] + ["opentelemetry"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    refused(capsys, file(AGENTS), part="OTEL_EXPORTER_OTLP_ENDPOINT", serves=False)


@pytest.mark.parametrize("ending", ["/chat/completions", "/responses/"])
@pytest.mark.parametrize("kind", ["base_url: '{}', model: m", "endpoints: [{{base_url: '{}'}}], model: m"])
def test_a_base_url_that_names_an_interface(kind, ending, file, capsys):
    settings = kind.format(
        f"https://host.example/v1{ending}?api-version=1" if ending[-1] != "/" else f"https://host.example/v1{ending}"
    )
    refused(
        capsys,
        file(f"agents: [{{id: a, kind: openai, {settings}}}]\n"),
        part="write https://host.example/v1",
    )


def test_nothing_stands_in_the_way(file, tmp_path, capsys):
    before = sorted(tmp_path.iterdir())
    path = file(AGENTS + "access_log: access.log\n")
    assert main(["validate", path]) == 0
    assert sorted(tmp_path.iterdir()) == [*before, tmp_path / "c.yaml"], "and nothing is made"


PRICED = "agents:\n" + "".join(
    f"  - {{id: {name}, kind: simulated, price: {{per_call_usd: {usd}}}}}\n"
    for name, usd in (("a", 0.001), ("b", 0.01))
)


def test_a_weight_of_dollars_that_moves_nothing(file, capsys):
    def objectives(usd):
        assert main(["validate", file(f"router: {{objective: {{usd: {usd}}}}}\n" + PRICED)]) == 0
        return [line for line in capsys.readouterr().err.splitlines() if line.startswith("bot-orch: objective: ")]

    (found,) = objectives(1)
    assert "objective.usd: 1 moves rewards by 0.009 at most" in found and "write 11," in found
    assert objectives(11) == []
    (found,) = objectives(0)
    assert "config.agents.price: breaks ties" in found
    assert "objective: {usd: 11}" in found and "quality_within" in found


def test_quality_without_prices_and_prices_without_an_objective(file, capsys):
    """A budget counts dollars, too, and one agent leaves nothing to choose."""
    cases = {
        PRICED: "config.agents.price: breaks ties between equal agents alone",
        "router: {minimise: usd, subject_to: {quality_within: 0.02}}\n"
        + AGENTS: "quality_within: no agent has a price",
        "router: {minimise: usd, subject_to: {quality_within: 0.02}}\n" + PRICED: "",
        "router: {budget: {window_usd: 5}}\n" + PRICED: "",
        "agents: [{id: a, kind: simulated, price: {per_call_usd: 1}}]\n": "",
    }
    for text, part in cases.items():
        assert main(["validate", file(text)]) == 0
        said = "".join(capsys.readouterr())
        assert part in said and ("objective: " in said or not part)
        assert part or "breaks ties" not in said


def test_a_weight_is_looked_at_where_prices_are(file):
    part = parse_config(f"version: 1\nrouter: {{objective: {{usd: 1}}}}\n{PRICED}")
    assert idle_weight(part)[0] == pytest.approx(0.009)
    assert idle_weight(parse_config(f"version: 1\nrouter: {{objective: {{usd: 1}}}}\n{AGENTS}")) is None


def test_quickstart_begins_with_a_weight_that_matters():
    config = parse_config(configuration([], file="c.yaml"))
    assert idle_weight(config) is None and config.router.objective["usd"] == dollar_weight([0.001, 0.02])
    models = EndpointFound("o", "openai", "https://host.example/v1", models=("a", "b"))
    text = configuration([models], file="c.yaml")
    dear, cheap = (
        "{input_usd_per_million: 2.5, output_usd_per_million: 10}",
        "{input_usd_per_million: 0.15, output_usd_per_million: 0.6}",
    )
    first, _, second = text.partition(
        "    # price: {input_usd_per_million: 0.5, output_usd_per_million: 1.5}   # from its price list"
    )
    second = second.replace("# price: {input_usd_per_million: 0.5, output_usd_per_million: 1.5}", f"price: {dear}")
    assert idle_weight(parse_config(f"{first}    price: {cheap}{second}")) is None

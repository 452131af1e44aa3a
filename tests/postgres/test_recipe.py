"""What is written down for containers and in the manual fits the program."""

import json
import os
import re
import subprocess
import tomllib
from dataclasses import asdict
from pathlib import Path

import pytest
import yaml
from service_running import BASE, Running, until

from bot_orch.cli.main import build_parser
from bot_orch.errors import InvalidInputError
from bot_orch.log.stores.postgres.connect import Timing, split
from bot_orch.service.build import check
from bot_orch.service.config import parse_config
from bot_orch.service.metrics import CATALOGUE

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
PAGE = (ROOT / "docs" / "how-to" / "postgresql.md").read_text()
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def instructions():
    joined = re.sub(r"\\\n", " ", DOCKERFILE)
    return [line.split(None, 1) for line in joined.splitlines() if line and not line.startswith("#")]


def parses(command):
    return build_parser().parse_args(command).command


def test_compose_has_postgresql_and_two_replicas():
    services = COMPOSE["services"]
    assert set(services) == {"postgres", "one", "two"}
    replicas = [services["one"], services["two"]]
    assert replicas[0]["ports"] != replicas[1]["ports"]
    assert all(port.startswith("127.0.0.1:") for each in replicas for port in each["ports"])
    for replica in replicas:
        assert replica["command"][:1] == ["serve"] and parses(replica["command"]) == "serve"
        assert replica["depends_on"] == {"postgres": {"condition": "service_healthy"}}
        (mount,) = replica["configs"]
        assert mount["source"] in COMPOSE["configs"] and mount["target"] == replica["command"][1]
    for volume in services["postgres"]["volumes"]:
        assert volume.partition(":")[0] in COMPOSE["volumes"]


def test_the_configuration_in_compose_is_valid_and_holds_no_secret():
    text = COMPOSE["configs"]["service"]["content"].replace("$$", "$")
    given = dict.fromkeys(COMPOSE["services"]["one"]["environment"], "x" * 32)
    config = parse_config(text, given)
    check(config)
    user, database = (COMPOSE["services"]["postgres"]["environment"][f"POSTGRES_{n}"] for n in ("USER", "DB"))
    assert config.database == f"postgresql://{user}:{'x' * 32}@postgres:5432/{database}" and config.tokens
    for value in COMPOSE["services"]["one"]["environment"].values():
        assert re.fullmatch(r"\$\{[A-Z_]+:\?.*\}", value), "secrets come from the environment"


def test_the_first_lines_of_compose_make_every_secret_once(tmp_path):
    (command,) = re.findall(r"^#   (.+)$", (ROOT / "compose.yaml").read_text(), re.MULTILINE)
    (tmp_path / "openssl").write_text("#!/bin/sh\nod -An -N24 -tx1 /dev/urandom | tr -d ' \\n'\n")
    (tmp_path / "openssl").chmod(0o755)
    found = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, env=found, check=True)
    made = dict(line.split("=") for line in (tmp_path / ".env").read_text().splitlines())
    assert set(made) == set(COMPOSE["services"]["one"]["environment"]) and len(set(made.values())) == 3
    assert all(re.fullmatch("[0-9a-f]{48}", value) for value in made.values()), "nothing that a URL would misread"
    assert ".env" in (ROOT / ".gitignore").read_text().split() and "docker compose up --build" in PAGE


def test_the_dockerfile_copies_what_is_there_and_starts_what_exists():
    steps = instructions()
    known = {"FROM", "RUN", "WORKDIR", "COPY", "USER", "EXPOSE", "HEALTHCHECK", "STOPSIGNAL", "ENTRYPOINT", "CMD"}
    assert {name for name, _ in steps} <= known and steps[0][0] == "FROM"
    copied = [source for name, rest in steps if name == "COPY" for source in rest.split()[:-1]]
    ignored = (ROOT / ".dockerignore").read_text().split()
    for source in copied:
        assert (ROOT / source).exists() and f"!{source}" in ignored
    values = dict(steps)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert json.loads(values["ENTRYPOINT"]) == ["bot-orch"] and "bot-orch" in project["scripts"]
    assert parses(json.loads(values["CMD"])) == "serve" and values["USER"] != "root"
    extras = re.search(r"'\.\[([a-z,]+)\]'", DOCKERFILE)[1].split(",")
    assert set(extras) <= set(project["optional-dependencies"]) and {"service", "postgres"} <= set(extras)


@pytest.mark.parametrize("name", ["how-to/postgresql", "how-to/serve", "evidence/scaling"])
def test_commands_in_the_manual_exist(name):
    page = (ROOT / "docs" / f"{name}.md").read_text()
    commands = re.findall(r"^bot-orch (.+?)(?:\s+#.*)?$", page, re.MULTILINE)
    assert len(commands) >= 3
    for command in commands:
        assert parses(command.split())
    for script in re.findall(r"python (benchmarks/\w+\.py)", page):
        assert (ROOT / script).exists()
    assert "MEASURED" not in page


def test_every_promise_of_the_other_engine_names_a_test_that_exists():
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "docs" / "evidence" / "scaling.md").read_text())
    assert len(named) >= 6
    for file, name in named:
        assert re.search(rf"^def {name}\b", (ROOT / file).read_text(), re.MULTILINE), f"{file}::{name}"


def test_deadlines_and_metrics_in_the_manual_are_those_of_the_service(database):
    for name, default in asdict(Timing()).items():
        assert f"| `{name}` | {default:g} |" in PAGE
    url = re.search(r"database: (postgresql://\S+lease_s=4\S+)", PAGE)[1]
    assert split(url)[1] == Timing(lease_s=4.0, query_s=2.0, clock_s=1.0)
    service = Running(parse_config(BASE.format(database=json.dumps(database), port=0)))
    until(lambda: service.serves)
    metrics = service.get("/metrics").body.decode()
    service.stop()
    section = PAGE.partition("### What to watch")[2].partition("\n### ")[0]
    found = re.findall(r"^\| `(\w+)", section, re.MULTILINE)
    assert len(found) == 3 and set(found) <= set(CATALOGUE)
    missing = ["bot_orch_passed_on_total"]  # nothing to pass on
    assert [name for name in found if name not in metrics] == missing


@pytest.mark.parametrize("url", ["postgresql://a:secret@h/d", "postgresql://h/d?password=secret"])
def test_a_password_in_the_file_is_refused(url):
    with pytest.raises(InvalidInputError, match="plain text"):
        parse_config(f"version: 1\ndatabase: {url}\nagents: [{{id: a, kind: simulated}}]")


def test_a_missing_driver_is_named(monkeypatch):
    import builtins

    from bot_orch.errors import MissingExtraError
    from bot_orch.log.stores.open import open_log

    real = builtins.__import__

    def without(name, *arguments, **options):
        if name == "psycopg":
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"\[postgres\]"):
        open_log("postgresql://h/d", writing=True)


def test_logs_in_postgresql_are_read_like_files(database, capsys, tmp_path):
    from bot_orch.cli import main

    service = Running(parse_config(BASE.format(database=json.dumps(database), port=0)))
    for _ in range(3):
        service.post("/v1/decisions")
    service.stop()
    assert main(["replay", database, "--quiet"]) == 0
    assert main(["export", database, str(tmp_path / "out.csv")]) == 0
    said = capsys.readouterr().out
    assert "decisions derived again: 3, different: 0" in said and "3 lines" in said

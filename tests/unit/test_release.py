"""What a release says of itself agrees."""

import re
import tomllib
from pathlib import Path

import yaml

import bot_orch

ROOT = Path(__file__).parents[2]


def test_versions_agree():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE).group(1)
    assert cited["version"] == newest == bot_orch.__version__


def test_the_declared_interpreters_are_those_of_the_workflow():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {each.rsplit(" ", 1)[1] for each in project["classifiers"] if "Python :: 3." in each}
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
    assert declared == set(jobs["wheel"]["strategy"]["matrix"]["python-version"]) and "3.11" in declared
    assert "python:3.11" in (ROOT / "Dockerfile").read_text()


def test_hooks_run_what_lint_runs():
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    lint = re.search(r"^lint:.*?\n\n", (ROOT / "Makefile").read_text(), re.MULTILINE | re.DOTALL).group()
    for hook in repository["hooks"]:
        tool = hook["entry"].split()[0].removeprefix(".venv/bin/")
        assert f"$(BIN)/{tool}" in lint, tool

"""Runbooks name log lines, errors and metrics that the service has."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUNBOOKS = (ROOT / "docs/how-to/runbooks.md").read_text()
SOURCE = "".join(path.read_text() for path in sorted((ROOT / "src/bot_orch").rglob("*.py")))
SOURCE = re.sub(r'"\s*\n\s*f?"', "", SOURCE)  # texts of several lines


def said(page):
    """Texts of the service in backticks: log lines, messages, codes and metrics."""
    for quoted in re.findall(r"`([^`]+)`", page.replace("\n  ", " ")):
        if re.match(r"SELECT |bot-orch |serve |POST |GET |timedatectl|fsync|synchronous_|LOG|--|/|x-", quoted):
            continue
        if quoted.startswith("bot_orch_"):
            yield re.match(r"\w+", quoted)[0]
        elif re.fullmatch(r"[a-z]+(_[a-z]+)+|[a-z][^A-Z{}]* .*", quoted):
            yield from filter(None, (each.strip(" ;:'") for each in re.split(r"\.\.\.|\b(?:[NM]|\d+)\b", quoted)))


def missing(page):
    return {each for each in said(page) if each not in SOURCE}


def test_what_runbooks_quote_is_in_the_service():
    assert len(set(said(RUNBOOKS))) > 30
    assert missing(RUNBOOKS) == set()


def test_control_a_log_line_that_is_not_there_is_found():
    assert missing("log line `storage went fishing`, `bot_orch_fish`") == {"storage went fishing", "bot_orch_fish"}


@pytest.mark.parametrize("part", ["Sign", "The service", "You", "Over when"])
def test_every_runbook_has_its_parts(part):
    books = [each for each in RUNBOOKS.split("\n## ")[1:] if not each.startswith("Other signs")]
    assert len(books) >= 10
    assert [each.splitlines()[0] for each in books if f"**{part}" not in each] in ([], ["An upgrade"])

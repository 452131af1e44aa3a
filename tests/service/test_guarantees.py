"""The page of guarantees names tests that exist."""

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_promise_names_a_test_that_exists():
    page = (ROOT / "docs" / "evidence" / "guarantees.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith(("| ---", "| Promise"))]
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page)
    assert len(rows) >= 60 and len(named) >= 100
    assert all("`tests/" in row.split("|")[2] for row in rows), "every promise has a test"
    for file, name in named:
        assert re.search(rf"^(def|class) {name}\b", (ROOT / file).read_text(), re.MULTILINE), f"{file}::{name}"


def test_the_reference_is_made_from_the_code():
    spec = importlib.util.spec_from_file_location("generated", ROOT / "docs" / "site" / "generated.py")
    generated = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generated)
    pages = {name: (ROOT / "docs" / "reference" / f"{name}.md").read_text() for name in ("commands", "http", "metrics")}
    made = {name: generated.filled(page) for name, page in pages.items()}
    assert "## bot-orch serve" in made["commands"] and "--host" in made["commands"]
    assert "| `POST /v1/feedback` | feedback |" in made["http"]
    assert "| `bot_orch_ready` | gauge |" in made["metrics"]

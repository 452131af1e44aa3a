"""The page of guarantees names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_promise_names_a_test_that_exists():
    page = (ROOT / "docs" / "evidence" / "guarantees.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith(("| ---", "| Promise"))]
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page)
    assert len(rows) >= 60 and len(named) >= 90
    assert all("`tests/" in row.split("|")[2] for row in rows), "every promise has a test"
    for file, name in named:
        assert re.search(rf"^(def|class) {name}\b", (ROOT / file).read_text(), re.MULTILINE), f"{file}::{name}"

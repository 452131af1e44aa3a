"""The page of guarantees names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_promise_names_a_test_that_exists():
    page = (ROOT / "docs" / "guarantees.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ") and "---" not in line][1:]
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page)
    assert len(rows) >= 20 and len(named) >= 40
    assert all("`tests/" in row.split("|")[2] for row in rows), "every promise has a test"
    for file, name in named:
        assert re.search(rf"^(def|class) {name}\b", (ROOT / file).read_text(), re.MULTILINE), f"{file}::{name}"


def test_the_routes_in_the_manual_are_those_of_the_service():
    from bot_orch.service.api.routes import ROUTES

    page = "".join(
        (ROOT / "docs" / f"{name}.md").read_text() for name in ("operating", "gateway", "rollout", "routers")
    )
    for route in ROUTES:
        assert route.path.replace(":path}", "}") in page, route.path

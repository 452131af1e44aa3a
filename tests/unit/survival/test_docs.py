"""The examples of docs/concepts/survival.md run, and its names exist."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import bot_orch
from bot_orch import survival

PAGE = (Path(__file__).parents[3] / "docs" / "concepts" / "survival.md").read_text(encoding="utf-8")


def test_examples_run():
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(blocks) == 1
    for block in blocks:
        exec(compile(block, "survival.md", "exec"), {})  # noqa: S102


def test_names_exist():
    names = set(re.findall(r"`([A-Z][A-Za-z]+[a-z])[`(]", PAGE))
    assert len(names) >= 8
    assert {name for name in names if not (hasattr(survival, name) or hasattr(bot_orch, name))} == set()


def test_the_level_below_which_the_bound_is_empty():
    assert "e < 0.589" in PAGE
    assert round(float(np.sqrt(np.log(2) / 2)), 3) == 0.589

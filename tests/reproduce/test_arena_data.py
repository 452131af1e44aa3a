"""The seventeen real sets load with the headroom that their descriptions state. Skipped where the data are absent."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from bot_orch.errors import InvalidInputError
from bot_orch.lab.environments.matrix.find import data_paths, expand, load_matrix
from bot_orch.lab.environments.matrix.model import Matrix

FOLDERS = data_paths()
FILES: list[Path] = []
with suppress(InvalidInputError):  # a folder without data sets
    FILES = expand(FOLDERS) if FOLDERS else []


def _stated(text: str) -> tuple[float, float, float]:
    """Best single, random and oracle in a description, three digits each."""
    runtime = re.search(r"reward 1-log\S+ +([\d.]+) +([\d.]+) +([\d.]+)", text)
    if runtime is not None:
        best, random, oracle = (float(group) for group in runtime.groups())
        return best, random, oracle
    found = []
    for word in (r"[Bb]est single", "random", "oracle"):
        hit = re.search(rf"{word} (\.\d+)", text)
        assert hit is not None, f"no {word} in the description"
        found.append(float(hit.group(1)))
    return found[0], found[1], found[2]


@pytest.mark.skipif(not FILES, reason="no data folder: set BOT_ORCH_DATA")
def test_there_are_seventeen() -> None:
    assert len(FILES) == 17


def _headroom(matrix: Matrix) -> tuple[float, float, float]:
    """Mean reward of the best single agent, of a random one, and of the best agent of every task.

    Where the best single agent cannot take a task, a random eligible one does.
    """
    r = matrix.reward[matrix.playable]
    anyone = np.nanmean(r, axis=1)
    single = np.where(np.isfinite(r), r, anyone[:, None]).mean(axis=0)
    return float(single.max()), float(anyone.mean()), float(np.nanmax(r, axis=1).mean())


@pytest.mark.parametrize("path", FILES or [None], ids=lambda path: "none" if path is None else path.stem)
def test_headroom_is_as_stated(path: Path | None) -> None:
    if path is None:
        pytest.skip("no data: set BOT_ORCH_DATA")
    matrix = load_matrix(path)
    stated = _stated(path.with_name(f"{matrix.name}.md").read_text())
    # One set rounds its last digit otherwise where cells are missing.
    assert _headroom(matrix) == pytest.approx(stated, abs=1.1e-3)

"""The page on transport: its example runs, its pictures exist, its table names what there is."""

from __future__ import annotations

import re
from pathlib import Path

from bot_orch import transport as tr

PAGE = Path(__file__).parents[3] / "docs" / "concepts" / "transport.md"


def test_the_example_runs():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    space: dict[str, object] = {}
    exec(code, space)  # noqa: S102  (our own page)
    assert space["state"]["seen"].tolist() == [1, 0, 0]


def test_the_pictures_exist():
    names = re.findall(r"\((img/[^)]+)\)", PAGE.read_text())
    assert len(names) == 9
    assert all((PAGE.parent / name).stat().st_size > 5000 for name in names)


def test_the_table_covers_every_geometry():
    table = set(re.findall(r"`(\w+)(?:\([^`]*\))?` \| `", PAGE.read_text()))
    built = {
        name
        for name in tr.__all__
        if isinstance(getattr(tr, name), type) and issubclass(getattr(tr, name), tr.Geometry)
    }
    assert table == built - {"Geometry"}

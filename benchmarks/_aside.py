"""Which sets are set aside while a default is being changed: the rule was fixed before the first run.

Of each folder the third of the sets (rounded up) whose names have the smallest SHA-256 digests is looked at once, after
the last choice. ``python benchmarks/_aside.py`` prints both lists.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

__all__ = ["folders", "set_aside"]


def set_aside(names: Iterable[str]) -> frozenset[str]:
    """The third of ``names`` with the smallest digests."""
    ordered = sorted(set(names), key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    return frozenset(ordered[: -(-len(ordered) // 3)])


def folders() -> tuple[Path, ...]:
    """The folder of the arena's sets and, next to it, that of the sets with prompts."""
    root = Path(os.environ.get("BOT_ORCH_DATA", "data"))
    return root, root.parent / f"{root.name}_text"


if __name__ == "__main__":
    for folder in folders():
        names = sorted(path.stem for path in folder.glob("*.npz"))
        aside = set_aside(names)
        print(f"{folder.name}: set aside {sorted(aside)}; used {[name for name in names if name not in aside]}")

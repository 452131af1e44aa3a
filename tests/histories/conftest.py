"""Modules of this folder, and helpers shared with others."""

import sys
from pathlib import Path

for name in ("postgres", "service", "histories"):
    sys.path.insert(0, str(Path(__file__).parents[1] / name))

"""The option ``--archive`` of commands that read a whole log."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["add_archive"]


def add_archive(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    said = "the folder that old events were moved to (export --before), if it is not where the log says"
    parser.add_argument("--archive", type=Path, metavar="FOLDER", help=said)

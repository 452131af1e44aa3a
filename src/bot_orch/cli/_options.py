"""Options that several commands have."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from bot_orch.errors import InvalidInputError


def add_run_options(parser: argparse.ArgumentParser, out: str) -> None:
    """Add ``--jobs``, ``--engine``, ``--address``, ``--out`` (default ``out``), ``--force`` and ``--quiet``."""
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (default: cores)")
    parser.add_argument("--engine", choices=("local", "ray"), default="local", help="where to run (default: local)")
    parser.add_argument("--address", metavar="ADDRESS", help="Ray cluster (default: RAY_ADDRESS, else this machine)")
    parser.add_argument("--out", type=Path, default=Path(out), metavar="DIR", help=f"default: {out}")
    parser.add_argument("--force", action="store_true", help="overwrite existing results")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def check_counts(arguments: argparse.Namespace, names: Sequence[str]) -> None:
    """Raise an error for options below 1; options not given are skipped."""
    for name in names:
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise InvalidInputError(f"--{name.replace('_', '-')}", f"is {value}", "pass a whole number, 1 or more")


def add_archive(parser: argparse.ArgumentParser) -> None:
    """Add ``--archive``, for commands that read a whole log."""
    said = "the folder that old events were moved to (export --before), if it is not where the log says"
    parser.add_argument("--archive", type=Path, metavar="FOLDER", help=said)

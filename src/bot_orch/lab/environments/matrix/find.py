"""Find matrices: files, folders of files, and the paths in ``BOT_ORCH_DATA``."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

from bot_orch.errors import InvalidInputError
from bot_orch.files import path_of
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.matrix.npz import read_npz
from bot_orch.lab.environments.matrix.sheets.read import SUFFIXES, read_table

_REMEDY = "pass .csv, .parquet or .npz files, or folders of them"


def data_paths() -> list[Path]:
    """The paths in ``BOT_ORCH_DATA``, separated like ``PATH``; empty if it is not set."""
    return [Path(word) for word in os.environ.get("BOT_ORCH_DATA", "").split(os.pathsep) if word]


def expand(paths: Sequence[Path], tell: Callable[[str], None] | None = None) -> list[Path]:
    """Every matrix under the paths, in order; those in ``BOT_ORCH_DATA`` if no path is given.

    ``tell`` is called with what to say about files of a folder that are not read.
    """
    if not paths:
        paths = data_paths()
        if not paths:
            problem, remedy = "none given", f"{_REMEDY}, or set BOT_ORCH_DATA to a list of paths"
            raise InvalidInputError("PATH", problem, remedy)
        for path in paths:
            if not path.exists():
                raise InvalidInputError("BOT_ORCH_DATA", f"{path} does not exist", "name files and folders that do")
    found = [file for path in paths for file in _expand_one(_located(path), tell)]
    names = [dataset_name(path) for path in found]
    for name in names:
        if names.count(name) > 1:
            raise InvalidInputError("PATH", f"two data sets are called {name!r}", "pass it once, or rename one")
    return found


def _located(path: Path) -> Path:
    """The path, or else what has its name in a folder of ``BOT_ORCH_DATA``."""
    candidates = (path, *(folder / path for folder in data_paths()))
    return next((each for each in candidates if each.exists()), path)


def _expand_one(path: Path, tell: Callable[[str], None] | None) -> list[Path]:
    if path.is_dir():
        return _in_folder(path, tell)
    if not path.exists():
        raise InvalidInputError(str(path), "does not exist", _REMEDY)
    if path.suffix.lower() not in (".npz", *SUFFIXES):
        remedy = "save it as CSV UTF-8" if path.suffix in (".xlsx", ".xls", ".ods") else _REMEDY
        raise InvalidInputError(str(path), "is no matrix file", remedy)
    return [path]


def _in_folder(folder: Path, tell: Callable[[str], None] | None) -> list[Path]:
    """Archives, or tables if there are none, as tables often accompany archives as descriptions."""
    seen = sorted(child for child in folder.iterdir() if not child.name.startswith("."))  # hidden: not data sets
    archives = [child for child in seen if child.suffix == ".npz"]
    tables = [child for child in seen if child.suffix.lower() in SUFFIXES and child.is_file()]
    if not archives and not tables:
        raise InvalidInputError(str(folder), "holds no matrix file", _REMEDY)
    if archives and tables and tell is not None:
        names = ", ".join(child.name for child in tables)
        tell(f"{folder.name}: not read beside .npz files: {names} (pass their paths to read them)")
    return archives or tables


def dataset_name(path: Path) -> str:
    """The name of the data set in results."""
    return path.stem if path.suffix.lower() in (".npz", *SUFFIXES) else path.resolve().name


def fingerprint(path: Path) -> str:
    """A digest of the contents of a file."""
    return hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()


def load(path: str | Path) -> Matrix:
    """The matrix in a CSV, Parquet or ``.npz`` file; an error names file, column, row and remedy.

    ``notes`` of the matrix says what was read as what, and names what was not read.
    """
    one = path_of(path)
    found = _expand_one(one, None)
    if found != [one]:
        raise InvalidInputError(str(one), f"is a folder of {len(found)} data sets", "load one at a time")
    return load_matrix(one)


def load_matrix(path: Path) -> Matrix:
    """Read a file; recent ones are cached."""
    return _load(path.resolve(), path.stat().st_mtime_ns)


@lru_cache(maxsize=4)
def _load(path: Path, modified_ns: int) -> Matrix:
    del modified_ns
    return read_npz(path) if path.suffix == ".npz" else read_table(path)

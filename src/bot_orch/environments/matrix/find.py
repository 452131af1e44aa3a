"""Find matrices: files, ASlib folders, folders of files, and the data folder."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from bot_orch.environments.matrix.aslib import is_scenario, read_scenario
from bot_orch.environments.matrix.model import Matrix
from bot_orch.environments.matrix.npz import read_npz
from bot_orch.errors import InvalidInputError

__all__ = ["data_folder", "dataset_name", "expand", "fingerprint", "load_matrix"]


def data_folder() -> Path | None:
    """``BOT_ORCH_DATA``, else ``../shared/data`` beside the working directory or the repository; None if absent."""
    named = os.environ.get("BOT_ORCH_DATA")
    repository = Path(__file__).resolve().parents[4]
    places = [Path(named)] if named else [Path("../shared/data"), repository / "../shared/data"]
    return next((place.resolve() for place in places if place.is_dir()), None)


def expand(paths: Sequence[Path]) -> list[Path]:
    """Every matrix under the paths, in order; the data folder if no path is given."""
    if not paths:
        folder = data_folder()
        if folder is None:
            named = os.environ.get("BOT_ORCH_DATA")
            problem = f"BOT_ORCH_DATA={named} is not a folder" if named else "none given, and no data folder found"
            raise InvalidInputError("PATH", problem, "pass .npz files or folders, or set BOT_ORCH_DATA")
        paths = [folder]
    found = [file for path in paths for file in _expand_one(path)]
    names = [dataset_name(path) for path in found]
    for name in names:
        if names.count(name) > 1:
            raise InvalidInputError("PATH", f"two data sets are called {name!r}", "pass it once, or rename one")
    return found


def _expand_one(path: Path) -> list[Path]:
    if path.is_dir():
        if is_scenario(path):
            return [path]
        seen = (child for child in path.iterdir() if not child.name.startswith("."))  # hidden files are not data sets
        inside = sorted(child for child in seen if child.suffix == ".npz" or is_scenario(child))
        if not inside:
            raise InvalidInputError(str(path), "holds no .npz file and no ASlib scenario", "pass another folder")
        return inside
    if not path.exists():
        raise InvalidInputError(str(path), "does not exist", "pass an .npz file, an ASlib folder or a folder of them")
    if path.suffix != ".npz":
        raise InvalidInputError(str(path), "is not an .npz file", "pass an .npz file or an ASlib folder")
    return [path]


def dataset_name(path: Path) -> str:
    """What results call the data set."""
    return path.stem if path.suffix == ".npz" else path.resolve().name


def fingerprint(path: Path) -> str:
    """A digest of the contents of a file or an ASlib folder, wherever it lies."""
    digest = hashlib.blake2b(digest_size=8)
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        if file.is_file():
            digest.update(file.read_bytes())
    return digest.hexdigest()


def load_matrix(path: Path) -> Matrix:
    """Read a file or an ASlib folder; the last few are kept in memory."""
    modified = (path / "algorithm_runs.arff" if path.is_dir() else path).stat().st_mtime_ns
    return _load(path.resolve(), modified)


@lru_cache(maxsize=4)
def _load(path: Path, modified_ns: int) -> Matrix:
    del modified_ns
    return read_scenario(path) if path.is_dir() else read_npz(path)

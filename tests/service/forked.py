"""Commands in processes of their own, forked from one that has imported the package: a second is saved each time."""

import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["bot_orch.cli.main", "bot_orch.service.build", "bot_orch.service.server"])


def command(*words, cwd=None, timeout=60):
    """What ``bot-orch WORDS`` does, as ``subprocess.run`` gives it."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = (list(map(str, words)), str(cwd or Path.cwd()), dict(os.environ), folder)
        process = _FORKS.Process(target=_run, args=arguments)
        process.start()
        process.join(timeout)
        assert process.exitcode is not None, "it goes on"
        out, err = (Path(folder, name).read_text() for name in ("out", "err"))
    return subprocess.CompletedProcess(words, process.exitcode, out, err)


def _run(words, cwd, environment, folder):
    from bot_orch.cli import run_and_exit

    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(Path(folder, name), os.O_CREAT | os.O_WRONLY), number)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["bot-orch", *words]
    run_and_exit()

"""Programs as judges: one prints a number, the other tests the answer in a file."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bot_orch.errors import InvalidInputError
from bot_orch.service.judges.answer import AnswerGiven, JudgeFailure, Verdict, checked_value
from bot_orch.service.judges.checks import CheckSettings, fenced

_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ")
_FILE = "{file}"
_LONGEST = 2_000  # characters of a message


@dataclass(frozen=True, slots=True)
class ProgramSettings:
    """The program and its arguments; no shell is used. It runs in ``folder``, that of the configuration file."""

    command: tuple[str, ...]
    folder: str | None = None

    def __post_init__(self) -> None:
        if not self.command:
            raise InvalidInputError("command", "is empty", "write [program, argument]")


class Program:
    """Runs a program with the answer as JSON on standard input; it prints a number from 0 to 1, or nothing.

    Lines after the number are a message about what is wrong.
    """

    def __init__(self, settings: ProgramSettings) -> None:
        self._settings = settings

    async def verdict(self, answer: AnswerGiven) -> Verdict:
        """The verdict on an answer."""
        status, said = await _run(self._settings.command, self._settings.folder, json.dumps(answer.document()).encode())
        if status:
            raise JudgeFailure(f"the program ended with status {status}")
        words, _, message = said.decode(errors="replace").strip().partition("\n")
        try:
            return Verdict(checked_value(float(words)) if words else None, message[-_LONGEST:], own=True)
        except ValueError:
            raise JudgeFailure("the program printed something else than a number") from None


@dataclass(frozen=True, slots=True)
class UnitTestSettings(CheckSettings):
    """A program that tests a file: exit status 0 passes. ``{file}`` stands for its path, else it is the last argument.

    ``name`` is the file's name; ``fenced`` writes the first fenced block of the answer instead of all of it.
    ``timeout_s`` is the time the test has; an answer that takes longer fails.
    """

    command: tuple[str, ...]
    name: str = "answer.txt"
    _: KW_ONLY
    fenced: bool = False
    timeout_s: float = 10.0
    folder: str | None = None

    def __post_init__(self) -> None:
        CheckSettings.__post_init__(self)
        if not 0 < self.timeout_s <= 3600:
            raise InvalidInputError("timeout_s", f"is {self.timeout_s}", "set seconds, from 0 to 3600")
        if not self.command:
            raise InvalidInputError("command", "is empty", "write [program, argument, '{file}']")
        if Path(self.name).name != self.name or not self.name:
            raise InvalidInputError("name", f"is {self.name!r}", "write a file name without folders")


class UnitTest:
    """Runs the test; a timeout counts as failed. A program that cannot be started gives no opinion."""

    def __init__(self, settings: UnitTestSettings) -> None:
        self._settings = settings

    async def verdict(self, answer: AnswerGiven) -> Verdict:
        """The verdict on an answer."""
        s = self._settings
        with TemporaryDirectory(prefix="bot-orch-judge-") as folder:
            file = Path(folder) / s.name
            file.write_text(fenced(answer.text) if s.fenced else answer.text, encoding="utf-8", errors="replace")
            command = [part.replace(_FILE, str(file)) for part in s.command]
            if not any(_FILE in part for part in s.command):
                command.append(str(file))
            timer = asyncio.timeout(s.timeout_s)
            try:
                async with timer:
                    status, said = await _run(tuple(command), s.folder, b"", errors=STDOUT)
            except TimeoutError:
                if not timer.expired():
                    raise
                return s.verdict(passed=False, message=f"no result within {s.timeout_s:g} s", own=True)
        return s.verdict(passed=status == 0, message=said.decode(errors="replace")[-_LONGEST:], own=True)


def check_program(command: tuple[str, ...], folder: str | None) -> None:
    """Refuse a program that cannot be started in ``folder``."""
    if folder is not None and not Path(folder).is_dir():
        raise InvalidInputError("folder", f"{folder} is not a folder", "name the folder that the program runs in")
    program = command[0]
    path = program if os.sep not in program else str(Path(folder or "").absolute() / program)
    if shutil.which(path) is None:
        where = "is not on the PATH" if path == program else "is not an executable file"
        raise InvalidInputError("command", f"{program!r} {where}", "install it, or write its path")


async def _run(
    command: tuple[str, ...], folder: str | None, payload: bytes, *, errors: int = DEVNULL
) -> tuple[int, bytes]:
    """Exit status and output of a program, run in a separate process group that is killed at the end."""
    env = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=errors, env=env, cwd=folder, start_new_session=True
        )
    except OSError as error:
        raise JudgeFailure(f"{command[0]} cannot be started: {type(error).__name__}") from None
    said = b""
    try:
        with suppress(BrokenPipeError, ConnectionResetError):
            said, _ = await process.communicate(payload)
        return await process.wait(), said
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        process._transport.close()  # type: ignore[attr-defined]  # a pipe may be held by a child that escaped

"""Entry point: parses arguments, runs a command, reports errors in one line."""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import signal
import sqlite3
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from bot_orch._version import __version__
from bot_orch.errors import BotOrchError, MissingExtraError


class _PrintCompletion(argparse.Action):
    """Print the completion script of a shell, and exit."""

    def __call__(self, parser: argparse.ArgumentParser, _: Any, shell: Any, option: str | None = None) -> NoReturn:
        try:
            import shtab
        except ImportError as error:
            raise MissingExtraError(str(option), "service") from error
        print(shtab.complete(parser, shell))  # noqa: T201
        parser.exit()


class _Parser(argparse.ArgumentParser):
    """A parser that says in one line what is wrong, as commands do."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def build_parser() -> argparse.ArgumentParser:
    """Build the parser; a command is a module here with DESCRIPTION, EXAMPLES, ``options(parser)`` and ``run``."""
    parser = _Parser(
        prog="bot-orch",
        description="Routes each task to one of several agents and learns from the outcomes.",
        epilog="example: bot-orch reproduce --quick --out out/quick",
    )
    parser.add_argument("--version", action="version", version=f"bot-orch {__version__}")
    parser.add_argument(
        "--print-completion",
        action=_PrintCompletion,
        choices=("bash", "fish", "zsh"),
        help="print a script with which a shell completes commands and options",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    package = importlib.import_module("bot_orch.cli")
    for name in sorted(m.name for m in pkgutil.iter_modules(package.__path__)):
        if not name.startswith("_") and name != "main":
            _add_command(commands, name.rstrip("_"), importlib.import_module(f"bot_orch.cli.{name}"))
    return parser


def _add_command(commands: Any, name: str, module: Any) -> None:
    """Register a command; the first line of the module's docstring is its line in the list of commands."""
    summary = module.__doc__.partition("``: ")[2].partition("\n")[0].removesuffix(".")
    parser = commands.add_parser(
        name,
        help=summary,
        description=module.DESCRIPTION,
        epilog=module.EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.options(parser)
    parser.set_defaults(run=module.run)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    try:
        arguments = build_parser().parse_args(argv)
        status: int = arguments.run(arguments)
        sys.stdout.flush()
    except BotOrchError as error:
        print(f"bot-orch: {error}", file=sys.stderr)  # noqa: T201
        return 2
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("", "bot_orch"):
            raise
        needed = MissingExtraError(f"a command that imports {error.name}", "service")
        print(f"bot-orch: {needed}", file=sys.stderr)  # noqa: T201
        return 2
    except BrokenPipeError:  # the reader closed the pipe; without dup2 Python would report it again when it flushes
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except OSError as error:
        place = "" if error.filename is None else f"{error.filename}: "
        print(f"bot-orch: {place}{error.strerror or error}", file=sys.stderr)  # noqa: T201
        return 2
    except sqlite3.Error as error:
        print(f"bot-orch: {getattr(arguments, 'log', 'log')}: {error}", file=sys.stderr)  # noqa: T201
        return 2
    except KeyboardInterrupt:
        print("\nbot-orch: interrupted; run the same command again to go on", file=sys.stderr)  # noqa: T201
        return 130
    return status


def run_and_exit() -> NoReturn:
    """Run the command and exit with its status, even if Ctrl-C is pressed at the end."""
    status = main()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the status is final
    # CPython records a KeyboardInterrupt that propagated out of an exec of source text (as in many imports) and, even
    # if it was handled, exits by the signal; the next exec of source text clears the record (run_eval_code_obj).
    exec("")  # noqa: S102
    sys.exit(status)

"""The command line: ``bot-orch COMMAND``. Each module with ``add(subparsers)`` is one command."""

from bot_orch.cli.main import main, run_and_exit

__all__ = ["main", "run_and_exit"]

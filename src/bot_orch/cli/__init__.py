"""The command line: ``bot-orch COMMAND``. One module per command, found by looking."""

from bot_orch.cli.main import main, run_and_exit

__all__ = ["main", "run_and_exit"]

"""``bot-orch completion``: print a script that completes commands, options and choices in a shell."""

from __future__ import annotations

import argparse
from typing import Any

_DESCRIPTION = """\
Print a script with which a shell completes commands, options and their choices. It is made from the commands of this
release; load it again after an update."""
_EXAMPLE = """\
examples:
  source <(bot-orch completion bash)                                      this shell
  bot-orch completion bash > ~/.local/share/bash-completion/completions/bot-orch
  bot-orch completion zsh > "${fpath[1]}/_bot-orch"
  bot-orch completion fish > ~/.config/fish/completions/bot-orch.fish"""


def add(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "completion",
        help="print a completion script for bash, zsh or fish",
        description=_DESCRIPTION,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from bot_orch.cli.main import build_parser
    from bot_orch.cli.shells import SHELLS, commands_of

    print(SHELLS[arguments.shell](commands_of(build_parser())), end="")  # noqa: T201
    return 0

"""Completion scripts by shtab: bash completes the commands and options that the parsers accept."""

import re
import subprocess
from pathlib import Path

import pytest

from bot_orch.cli import main
from bot_orch.cli.main import build_parser

COMMANDS = next(each for each in build_parser()._actions if each.dest == "command").choices

TWELVE = {
    *("quickstart", "serve", "validate", "key", "report", "evaluate"),
    *("export", "import", "erase", "replay", "arena", "reproduce"),
}


def script(shell, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--print-completion", shell])
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_there_are_twelve_commands(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out
    listed = set(re.findall(r"^    ([a-z]+) ", said, re.MULTILINE))
    assert listed == TWELVE


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_every_command_is_in_the_script(shell, capsys):
    text = script(shell, capsys)
    assert len(COMMANDS) >= 12
    assert [name for name in COMMANDS if name not in text] == []


def test_bash_completes_commands_and_options(tmp_path, capsys):
    (tmp_path / "bot-orch.bash").write_text(script("bash", capsys))

    def completed(*words):
        quoted = " ".join(f"'{word}'" for word in words)
        ask = f'COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; "$f"; printf "%s\\n" "${{COMPREPLY[@]}}"'
        find = "f=$(complete -p bot-orch | grep -o -- '-F [^ ]*' | cut -c4-)"
        text = f"source {tmp_path / 'bot-orch.bash'}; {find}; {ask}"
        return subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=True).stdout.split()

    assert completed("bot-orch", "ser") == ["serve"]
    assert "--port" in completed("bot-orch", "serve", "--")


def test_every_command_is_on_the_page():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "commands.md").read_text()
    assert [name for name in COMMANDS if f"`{name}`" not in page] == []

"""Completion scripts: bash completes what the parsers accept; those for zsh and fish name every command and option."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from bot_orch.cli import main
from bot_orch.cli.main import build_parser
from bot_orch.cli.shells import SHELLS, commands_of

COMMANDS = commands_of(build_parser())
ASK = """
source {script}
COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_bot_orch
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    file = tmp_path_factory.mktemp("shell") / "bot-orch.bash"
    file.write_text(SHELLS["bash"](COMMANDS))
    return file


def completed(script, *words):
    """What bash offers for the last word, which may be empty."""
    quoted = " ".join("'" + word + "'" for word in words)
    text = ASK.format(script=script, words=quoted)
    done = subprocess.run(["bash", "-uc", text], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_commands_are_completed(script):
    offered = completed(script, "bot-orch", "")
    assert {"serve", "validate", "top", "completion", "queue"} <= set(offered)
    assert completed(script, "bot-orch", "ser") == ["serve"]
    assert completed(script, "bot-orch", "nonsense") == []


def test_options_and_their_choices_are_completed(script):
    assert set(completed(script, "bot-orch", "spend", "--f")) == {"--from", "--format"}
    assert completed(script, "bot-orch", "spend", "a.sqlite", "--by", "t") == ["token", "tenant", "tag"]
    assert completed(script, "bot-orch", "completion", "") == ["bash", "zsh", "fish"]
    assert "--port" in completed(script, "bot-orch", "serve", "c.yaml", "--")


def test_actions_of_a_command_are_completed(script):
    assert completed(script, "bot-orch", "queue", "cl") == ["claim"]
    assert "--reject" in completed(script, "bot-orch", "queue", "answer", "--")


def test_a_value_for_which_nothing_is_known_is_left_to_files(script):
    assert completed(script, "bot-orch", "sweep", "--out", "") == []
    assert "complete -o default -F _bot_orch bot-orch" in script.read_text()


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_and_option_is_in_the_script(shell, capsys):
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert len(COMMANDS) > 20
    for each in COMMANDS:
        assert all(re.search(rf"(?<![\w-]){name}(?![\w-])", text) for name in each.commands)
        for option in each.options:
            for name in option.names:
                wanted = name if shell != "fish" else f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
                assert wanted in text, (each.title, name)


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_script_is_well_formed(shell, tmp_path):
    """By the shell itself if it is here; bash parses what zsh and it have in common."""
    text = SHELLS[shell](COMMANDS)
    (tmp_path / "script").write_text(text)
    if shutil.which(shell):
        subprocess.run([shell, "-n", tmp_path / "script"], check=True)
    elif shell == "zsh":
        subprocess.run(["bash", "-n", tmp_path / "script"], check=True)
    assert text.replace("'\\''", "").replace("\\'", "").count("'") % 2 == 0


def test_every_command_is_on_the_page():
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    assert [name for name in COMMANDS[0].commands if f"`{name}`" not in page] == []

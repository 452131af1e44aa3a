"""Commands in the docs are commands: ``bot-orch`` knows their words, and programs that are named exist."""

import argparse
import itertools
import re
import shlex
from pathlib import Path

import pytest

from bot_orch.cli.main import build_parser

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"```(?:bash|sh)?\n(.*?)```", re.DOTALL)
(SUBCOMMANDS,) = (each for each in build_parser()._actions if isinstance(each, argparse._SubParsersAction))


def code_of(text):
    """Lines of shell blocks, continued ones joined, and code in the text, which may go over the end of a line."""
    blocks = [re.sub(r"\\\n\s*", " ", block) for block in FENCE.findall(text)]
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    inline = [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose)]
    return [line for block in blocks for line in block.splitlines()] + inline


def commands(text, program):
    """Words of every command of a program, up to a comment or another command."""
    for line in code_of(text):
        if line.startswith(f"{program} "):
            yield shlex.split(re.split(r"\s(?:&&|>|;|\|)\s", line)[0], comments=True)[1:]


def unknown(words):
    """Words that the command does not know: its name, its options, what an option may be; no word needs to be there."""
    if words[0].startswith("-") or not words[0].islower():
        return []
    if words[0] not in SUBCOMMANDS.choices:
        return words[:1]
    options = SUBCOMMANDS.choices[words[0]]._option_string_actions
    found = [word for word in words if word.startswith("--") and word.partition("=")[0] not in options]
    for word, value in itertools.pairwise(words):
        choices = options[word].choices if word in options else None
        found += [each for each in value.split("|") if choices and each not in choices and each.islower()]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_their_words_are_known(page):
    assert [(words, found) for words in commands(page.read_text(), "bot-orch") if (found := unknown(words))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_programs_exist(page):
    named = [words[0] for words in commands(page.read_text(), "python") if words[0].endswith(".py")]
    assert [name for name in named if "/" in name and not (ROOT / name).is_file()] == []


def test_many_are_read():
    found = [words for page in PAGES for words in commands(page.read_text(), "bot-orch")]
    assert len(found) > 70 and {words[0] for words in found} >= {"arena", "evaluate", "serve", "replay"}


def test_control_wrong_words_are_found():
    page = "```bash\nbot-orch arena --polices auto\n```\n`bot-orch arena\n--order upwards`, `bot-orch replay`"
    assert [unknown(words) for words in commands(page, "bot-orch")] == [["--polices"], ["upwards"], []]

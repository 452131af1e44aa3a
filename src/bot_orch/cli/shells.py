"""Completion scripts for shells, from a tree of argparse parsers."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from types import MappingProxyType

__all__ = ["SHELLS", "CommandWords", "OptionWords", "commands_of"]

_PROGRAM = "bot-orch"
_FILES = ("FILE", "LOG", "PATH", "DIR", "FROM", "TO", "OUT", "DATA")


@dataclass(frozen=True, slots=True)
class OptionWords:
    """An option: its spellings, its help, and what may follow it."""

    names: tuple[str, ...]
    help: str
    _: KW_ONLY
    takes_value: bool = False
    choices: tuple[str, ...] = ()
    file: bool = False


@dataclass(frozen=True, slots=True)
class CommandWords:
    """A command by its path, and the words that may follow: commands, options, choices of arguments, files."""

    path: tuple[str, ...]
    commands: Mapping[str, str]
    options: tuple[OptionWords, ...]
    _: KW_ONLY
    choices: tuple[str, ...] = ()
    files: bool = False

    @property
    def title(self) -> str:
        """The path as typed."""
        return " ".join(self.path)


def commands_of(parser: argparse.ArgumentParser) -> list[CommandWords]:
    """Every command of a parser, the program itself first."""
    return list(_walk(parser, (_PROGRAM,)))


def _walk(parser: argparse.ArgumentParser, path: tuple[str, ...]) -> Iterator[CommandWords]:
    options: list[OptionWords] = []
    choices: list[str] = []
    below: dict[str, argparse.ArgumentParser] = {}
    helps: dict[str, str] = {}
    files = False
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            below = dict(action.choices)
            helps = {each.dest: _help(each) for each in action._choices_actions}
        elif action.option_strings:
            options.append(_option(action))
        elif action.choices is not None:
            choices += map(str, action.choices)
        else:
            files = files or _is_file(action)
    yield CommandWords(
        path,
        {name: helps.get(name, "") for name in below},
        tuple(options),
        choices=tuple(choices),
        files=files,
    )
    for name, each in below.items():
        yield from _walk(each, (*path, name))


def _option(action: argparse.Action) -> OptionWords:
    return OptionWords(
        tuple(action.option_strings),
        _help(action),
        takes_value=action.nargs != 0,
        choices=tuple(map(str, action.choices or ())),
        file=_is_file(action),
    )


def _is_file(action: argparse.Action) -> bool:
    return action.nargs != 0 and (action.type is Path or action.metavar in _FILES)


def _help(action: argparse.Action) -> str:
    return "" if action.help in (None, argparse.SUPPRESS) else " ".join(str(action.help).replace("%%", "%").split())


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _steps(commands: Sequence[CommandWords]) -> list[str]:
    """Branches that follow a line from command to command."""
    return [
        f"      {_quoted(f'{each.title} {name}')}) at={_quoted(f'{each.title} {name}')} ;;"
        for each in commands
        for name in each.commands
    ]


def _names(command: CommandWords) -> str:
    return " ".join(name for option in command.options for name in option.names)


def _bash(commands: Sequence[CommandWords]) -> str:
    values, words = [], []
    for each in commands:
        for option in each.options:
            pattern = "|".join(_quoted(f"{each.title} {name}") for name in option.names)
            if option.takes_value:
                values.append(f"    {pattern}) COMPREPLY=($(compgen -W {_quoted(' '.join(option.choices))} -- ")
                values[-1] += '"$cur")); return ;;'
        shown = " ".join((*each.commands, *each.choices))
        words.append(f"    {_quoted(each.title)}) words={_quoted(shown)}; options={_quoted(_names(each))} ;;")
    # Where nothing matches, as after an option for a path, "-o default" completes names of files.
    return "\n".join(
        [
            f"# bash completion for {_PROGRAM}; load it with: source <({_PROGRAM} completion bash)",
            "_bot_orch() {",
            '  local cur="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"',
            f"  local at={_quoted(_PROGRAM)} word words options",
            "  COMPREPLY=()",
            '  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
            '    case "$at $word" in',
            *_steps(commands),
            "    esac",
            "  done",
            '  case "$at $before" in',
            *values,
            "  esac",
            '  case "$at" in',
            *words,
            "  esac",
            '  if [[ $cur == -* ]]; then words="$options"; fi',
            '  COMPREPLY=($(compgen -W "$words" -- "$cur"))',
            "}",
            f"complete -o default -F _bot_orch {_PROGRAM}",
            "",
        ]
    )


def _described(entries: Mapping[str, str]) -> str:
    return " ".join(
        _quoted(f"{name.replace(':', chr(92) + ':')}:{text}" if text else name) for name, text in entries.items()
    )


def _zsh(commands: Sequence[CommandWords]) -> str:
    values, words = [], []
    for each in commands:
        for option in each.options:
            if option.takes_value:
                pattern = "|".join(_quoted(f"{each.title} {name}") for name in option.names)
                then = "_files" if option.file else ":"
                if option.choices:
                    then = f"compadd -- {' '.join(map(_quoted, option.choices))}"
                values.append(f"    {pattern}) {then}; return ;;")
        found = {**each.commands, **dict.fromkeys(each.choices, "")}
        options = {name: option.help for option in each.options for name in option.names}
        words.append(
            f"    {_quoted(each.title)}) found=({_described(found)}); flags=({_described(options)});"
            f" files={int(each.files)} ;;"
        )
    return "\n".join(
        [
            f"#compdef {_PROGRAM}",
            "_bot_orch() {",
            f"  local at={_quoted(_PROGRAM)} word",
            "  local -a found flags",  # "options" is a parameter of zsh itself
            "  local files=0",
            "  for word in ${words[2,CURRENT-1]}; do",
            '    case "$at $word" in',
            *_steps(commands),
            "    esac",
            "  done",
            '  case "$at ${words[CURRENT-1]}" in',
            *values,
            "  esac",
            '  case "$at" in',
            *words,
            "  esac",
            '  if [[ "${words[CURRENT]}" == -* ]]; then _describe -o option flags; return; fi',
            "  (( ${#found} )) && _describe command found",
            "  (( files )) && _files",
            "}",
            'if [ "${funcstack[1]}" = "_bot-orch" ]; then _bot_orch "$@"; else compdef _bot_orch bot-orch; fi',
            "",
        ]
    )


def _fish(commands: Sequence[CommandWords]) -> str:
    lines = [f"# fish completion for {_PROGRAM}", f"complete -c {_PROGRAM} -f"]
    for each in commands:
        here = "; and ".join(f"__fish_seen_subcommand_from {name}" for name in each.path[1:])
        if each.commands:
            not_yet = f"not __fish_seen_subcommand_from {' '.join(each.commands)}"
            condition = _quoted(f"{here}; and {not_yet}" if here else not_yet)
            lines += [
                f"complete -c {_PROGRAM} -n {condition} -a {name} -d {_fish_quoted(text)}"
                for name, text in each.commands.items()
            ]
        head = f"complete -c {_PROGRAM}" + (f" -n {_quoted(here)}" if here else "")
        if each.choices:
            lines.append(f"{head} -a {_quoted(' '.join(each.choices))}")
        if each.files:
            lines.append(f"{head} -F")
        lines += [f"{head} {_fish_option(option)}" for option in each.options]
    return "\n".join(lines) + "\n"


def _fish_option(option: OptionWords) -> str:
    names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
    value = ""
    if option.choices:
        value = f" -x -a {_quoted(' '.join(option.choices))}"
    elif option.takes_value:
        value = " -r -F" if option.file else " -x"
    return f"{names}{value} -d {_fish_quoted(option.help)}"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SHELLS: Mapping[str, Callable[[Sequence[CommandWords]], str]] = MappingProxyType(
    {"bash": _bash, "zsh": _zsh, "fish": _fish}
)
"""The script for each shell."""

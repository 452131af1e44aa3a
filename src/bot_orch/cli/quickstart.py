"""``bot-orch quickstart``: configure, serve and try a gateway for the endpoints of this environment."""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

from bot_orch.errors import InvalidInputError, ResultsExistError

DESCRIPTION = """\
Look for endpoints in the environment, write a configuration for them, check it, serve it, send three chats, say which
agent answered with which propensity, and open the dashboard. It serves until Ctrl-C.

Asks three questions: which endpoints, what teaches the router, which port. Options answer them; --yes takes defaults.

Looks at OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_MODEL; ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL and ANTHROPIC_MODEL;
AZURE_OPENAI_API_KEY, AZURE_OPENAI_ENDPOINT and AZURE_OPENAI_DEPLOYMENT; OLLAMA_HOST and OLLAMA_MODEL, or an Ollama on
this machine. Without any of them the agents are simulated. The file names variables; keys are never written.

--write only writes the file, and its JSON Schema (bot-orch.schema.json), with which editors complete and check it. An
endpoint that does not answer then is used all the same if its model is named."""
EXAMPLES = """\
examples:
  bot-orch quickstart
  bot-orch quickstart --yes --endpoint local=http://127.0.0.1:8000/v1 --endpoint big=https://host/v1,big-1,BIG_KEY
  bot-orch quickstart --simulated --yes --once
  bot-orch quickstart --write bot-orch.yaml && bot-orch serve bot-orch.yaml"""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("config", type=Path, nargs="?", default=Path("bot-orch.yaml"), metavar="FILE")
    parser.add_argument(
        "--endpoint",
        action="append",
        default=[],
        metavar="NAME=URL",
        help="another one: name=url[,model[,VARIABLE]]; NAME is the agent's if the endpoint has one model",
    )
    parser.add_argument("--simulated", action="store_true", help="simulated agents, whatever the environment has")
    parser.add_argument(
        "--learn-from", choices=("feedback", "judge"), help="what teaches the router (default: feedback)"
    )
    parser.add_argument("--port", type=int, metavar="N", help="default: 8080")
    parser.add_argument("--yes", action="store_true", help="ask nothing")
    parser.add_argument("--write", action="store_true", help="write the file, and nothing else")
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")
    parser.add_argument("--no-browser", action="store_true", help="do not open the dashboard")
    parser.add_argument("--once", action="store_true", help="stop after the chats; status 1 if one failed")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from functools import partial

    from bot_orch.service.build import check
    from bot_orch.service.config import load_config, parse_config, placed
    from bot_orch.service.judges.registry import NO_SIGNAL, SIGNALS, lacks_signal
    from bot_orch.service.quickstart import Search, Try, configuration, run_quickstart, search

    file: Path = arguments.config
    if file.exists() and not arguments.force:
        raise ResultsExistError(f"{file}: exists; run it with: bot-orch serve {file}, or pass --force to overwrite it")
    ask = not arguments.yes and sys.stdin.isatty()
    found = Search(()) if arguments.simulated else search(os.environ, arguments.endpoint, offline=arguments.write)
    for line in found.left_out:
        _say(f"left out: {line}")
    for each in found.found:
        _say(f"found: {each.source} ({each.base_url}): {', '.join(each.models)}")
    wanted = _endpoints(found.found, ask=ask)
    if not wanted:
        _say("no endpoint to use: the agents are simulated")
    learn_from = arguments.learn_from or _learn_from(ask=ask and bool(wanted))
    port = arguments.port if arguments.port is not None else _port(ask=ask)
    if not arguments.write:
        _check_free(port)  # before anything is written
    made = configuration(wanted, learn_from=learn_from, file=file.name, port=port)
    config = placed(parse_config(made, name=str(file)), file, port=port)
    check(config)
    _write(file, made)
    _say(f"wrote {file}: agents {', '.join(agent.id for agent in config.agents)}; it is valid")
    if sum(len(each.models) for each in wanted) == 1:
        brief = config.agents[-1].id
        _say(f"one model gives no choice: {brief} is the same model, told to be brief; remove it from {file} at will")
    if lacks_signal(config):
        _say(f"{NO_SIGNAL}; {SIGNALS}")
    if arguments.write:
        _say(f"next: bot-orch serve {file}")
        return 0
    read, browser = partial(load_config, file, port=port), not arguments.no_browser
    return run_quickstart(Try(config, read, _say, file=str(file), once=arguments.once, browser=browser))


def _endpoints(found: Any, *, ask: bool) -> Any:
    if not ask or not found:
        return found
    names = ", ".join(each.name for each in found)
    said = _ask(f"1/3 Which endpoints? (names with commas, or none) [{names}] ") or names
    wanted = {name.strip() for name in said.split(",")} - {"none", ""}
    unknown = wanted - {each.name for each in found}
    if unknown:
        raise InvalidInputError("endpoints", f"{', '.join(sorted(unknown))} not found", f"choose from {names}")
    return tuple(each for each in found if each.name in wanted)


def _learn_from(*, ask: bool) -> str:
    from bot_orch.service.quickstart import LEARN_FROM

    if not ask:
        return "feedback"
    for name, text in LEARN_FROM.items():
        _say(f"    {name}: {text}")
    said = _ask("2/3 What teaches the router? [feedback] ") or "feedback"
    if said not in LEARN_FROM:
        raise InvalidInputError("answer", f"is {said}", f"choose from {', '.join(LEARN_FROM)}")
    return said


def _port(*, ask: bool) -> int:
    said = (_ask("3/3 Which port? [8080] ") if ask else "") or "8080"
    if not said.isdecimal():
        raise InvalidInputError("port", f"is {said}", "write a number")
    return int(said)


def _write(file: Path, text: str) -> None:
    """Write the configuration, and its JSON Schema into the same folder."""
    from bot_orch.files import write_atomically
    from bot_orch.service.operations.schema import SCHEMA_FILE, config_schema

    schema = json.dumps(config_schema(), indent=2) + "\n"
    write_atomically(file.with_name(SCHEMA_FILE), schema.encode())
    write_atomically(file, text.encode())


def _check_free(port: int) -> None:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except (OSError, OverflowError) as error:
        problem = f"127.0.0.1:{port} cannot be used ({getattr(error, 'strerror', None) or error})"
        raise InvalidInputError("--port", problem, "choose another port with --port") from error


def _ask(question: str) -> str:
    try:
        return input(question).strip()
    except EOFError:
        return ""


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201

"""All checks of a configuration file, in the order in which problems should be solved."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bot_orch.errors import BotOrchError, InvalidInputError
from bot_orch.service.build import check
from bot_orch.service.config import load_config
from bot_orch.service.config.documents import ConfigFile
from bot_orch.service.config.reading import variables_in
from bot_orch.service.doctor.endpoints import ProbeResult, ask_all, endpoint_findings, endpoints_in
from bot_orch.service.doctor.machine import CheckFinding, DatabaseSeen, failed, ok, see_database, warning
from bot_orch.service.doctor.start import objective_findings, port_findings, setting_findings, version_findings
from bot_orch.service.web.auth import Gate
from bot_orch.strict import parse_yaml, read_text

__all__ = ["examine"]

_UNKNOWN = "unknown-variable-of-the-environment"
_SKEW_S = 30.0


def examine(
    file: Path,
    environment: Mapping[str, str],
    *,
    timeout_s: float = 10.0,
    host: str | None = None,
    port: int | None = None,
) -> Iterator[CheckFinding]:
    """Check a file and everything it refers to; yields findings as they become known.

    ``host`` and ``port`` override those of the file, as with ``serve``. A missing variable does not end the
    examination: what needs it is left out.
    """
    if not file.exists():
        yield failed("configuration", f"{file} does not exist", "name another file, or run: bot-orch quickstart")
        return
    try:
        document = parse_yaml(read_text(file), str(file))
        variables = _variables(document)
        names = dict.fromkeys(name for found in variables.values() for name in found)
        known = {**environment, **{name: f"{_UNKNOWN}-{name}" for name in names if not environment.get(name)}}
        config = load_config(file, known, host=host, port=port)
        check(config)
        Gate(config.tokens, known, tenants=config.tenants)
    except InvalidInputError as error:
        field = error.field if error.field.startswith(str(file)) else f"{file}: {error.field}"
        yield failed("configuration", f"{field}: {error.problem}", error.remedy)
        return
    except (BotOrchError, OSError) as error:
        yield failed("configuration", f"{file}: {error}", "see docs/reference/settings.md")
        return
    count = sum(len(part.agents) for part in config.split().values())
    yield ok("configuration", f"{file}: {count} agent{'s' if count != 1 else ''}, policy {config.router.policy}")
    yield from _keys(variables, environment)
    yield from setting_findings(config)
    yield from objective_findings(config)
    wanted = [each for each in endpoints_in(config) if _UNKNOWN not in f"{each.base_url}{each.headers}"]
    said = asyncio.run(ask_all(wanted, timeout_s=timeout_s))
    yield from endpoint_findings(said, variables)
    seen = [see_database(part.database) for part in config.split().values() if _UNKNOWN not in part.database]
    yield _clock(said, seen)
    yield from dict.fromkeys(each for database in seen for each in database.findings)
    if seen and not any(each.state == "failed" for database in seen for each in database.findings):
        yield from version_findings(config, ConfigFile(file, environment))
    yield from port_findings(config, seen)


def _variables(document: Any) -> dict[str, list[str]]:
    """Environment variables by setting, including those of tokens."""
    found = {where: list(names) for where, names in variables_in(document, "config")}
    tokens = document.get("tokens") if isinstance(document, dict) else None
    for index, token in enumerate(tokens if isinstance(tokens, list) else ()):
        if isinstance(token, dict) and isinstance(token.get("env"), str):
            found[f"config.tokens[{index}].env"] = [token["env"]]
    return found


def _keys(variables: Mapping[str, Sequence[str]], environment: Mapping[str, str]) -> Iterator[CheckFinding]:
    missing = False
    for where, names in variables.items():
        for name in names:
            if not environment.get(name):
                missing = True
                yield failed("keys", f"{where} needs {name}, which is not set", f"set {name} before starting")
    if not missing:
        count = len({name for names in variables.values() for name in names})
        yield ok("keys", f"{count} variable{'s' if count != 1 else ''} of the environment needed, all set")


def _clock(said: Sequence[ProbeResult], seen: Sequence[DatabaseSeen]) -> CheckFinding:
    """A finding about the largest difference from other clocks."""
    others = [(each.ahead_s, f"the endpoint of {each.asked.name}") for each in said if each.ahead_s is not None]
    others += [(each.ahead_s, "the database") for each in seen if each.ahead_s is not None]
    if not others:
        return ok("clock", "nothing to compare with")
    worst_s, whose = max(others, key=lambda each: abs(each[0]))
    if abs(worst_s) <= _SKEW_S:
        return ok("clock", f"within {_SKEW_S:g} s of {len(others)} other{'s' if len(others) != 1 else ''}")
    word = "ahead of" if worst_s > 0 else "behind"
    return warning("clock", f"{abs(worst_s):.0f} s {word} {whose}", "synchronise it (timedatectl set-ntp true)")

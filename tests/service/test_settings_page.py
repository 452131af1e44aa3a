"""The table of docs/reference/settings.md lists every setting with its default; wrong ones are named."""

import re
from pathlib import Path
from typing import get_args, get_origin

import msgspec
import pytest

from bot_orch import available_policies
from bot_orch.errors import InvalidInputError
from bot_orch.service.build import check
from bot_orch.service.config import Config, parse_config

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "settings.md").read_text()
ROWS = re.findall(r"^\| (`[a-z0-9_.\[\]]+`.*) \|$", PAGE, re.MULTILINE)


def listed():
    """Default as written, by setting."""
    found = {}
    for row in ROWS:
        names, defaults, _ = re.split(r" *\| *", row, maxsplit=2)
        names = re.findall(r"`([^`]+)`", names)
        found |= dict(zip(names, defaults.split(", ") if ", " in defaults else [defaults] * len(names), strict=True))
    return found


def settings(type_, prefix=""):
    """Every setting and its default; parts that stand in one row are not opened."""
    for field in msgspec.structs.fields(type_):
        name, many = prefix + field.encode_name, get_origin(field.type) is tuple
        parts = [part for part in (field.type, *get_args(field.type)) if isinstance(part, type)]
        inner = next((part for part in parts if issubclass(part, msgspec.Struct)), None)
        by_name = get_origin(field.type) is dict
        if inner is not None and not by_name and not name.endswith(("memory", "reference")):
            yield from settings(inner, f"{name}[]." if many else f"{name}.")
        else:
            yield name, field.default


def test_every_setting_is_listed_with_its_default():
    table, known = listed(), dict(settings(Config))
    assert known.keys() - table.keys() == set()
    assert table.keys() - known.keys() == {"router.alignment"}
    for name, default in known.items():
        if isinstance(default, bool):
            assert table[name] == f"`{default}`".lower()
        elif isinstance(default, int | float):
            assert float(table[name].strip("`")) == default, name
        elif isinstance(default, str):
            assert table[name] == f"`{default}`"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("router: {reward: {id: survival, curv: own}}", "config.router.reward: is malformed"),
        ("router: {policy: bot, settings: {eta: x}}", "eta: is of type str; pass a number or a schedule"),
        ("router: {alignment: {geometry: {name: labels, label: 3}}}", "geometry.label: is not a setting of labels"),
        ("database: mysql://host/name", "config.database: has the scheme 'mysql'"),
        ("limits: {connections: 0}", "config.limits.connections: is 0; set a finite number, from 1 to 1e+06"),
    ],
)
def test_mistakes_are_found_before_anything_starts(setting, message):
    with pytest.raises(InvalidInputError) as refused:
        check(parse_config(f"version: 1\nagents: [{{id: a, kind: simulated}}]\n{setting}"))
    assert message in str(refused.value)


@pytest.mark.parametrize("policy", available_policies())
def test_every_policy_can_be_served(policy):
    check(
        parse_config(f"version: 1\nagents: [{{id: a, kind: simulated}}]\nrouter: {{policy: {policy}, n_features: 2}}")
    )

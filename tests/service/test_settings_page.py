"""The site's page of settings lists every setting with its default and its meaning; wrong ones are named."""

import importlib.util
import re
from pathlib import Path
from typing import get_args, get_origin

import msgspec
import pytest

from bot_orch import available_policies
from bot_orch.errors import InvalidInputError
from bot_orch.service.build import check
from bot_orch.service.config import Config, parse_config

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("generated", ROOT / "docs" / "site" / "generated.py")
generated = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(generated)


def listed(page):
    """Default as written, by setting."""
    return dict(re.findall(r"^\| `([a-zA-Z0-9_.\[\]]+)` \| (.*?) \|", page, re.MULTILINE))


def undescribed(page):
    """Settings of parts that describe their settings, without a description; parts without any text."""
    rows = re.findall(r"^\| `([a-zA-Z0-9_.\[\]]+)` \| [^|]* \| *\|$", page, re.MULTILINE)
    return rows + re.findall(r"^## (.+)\n\n\n", page, re.MULTILINE)


def settings(type_, prefix=""):
    """Every setting and its default."""
    for field in msgspec.structs.fields(type_):
        type_ = get_args(field.type)[0]  # with its meaning
        name, many = prefix + field.encode_name, get_origin(type_) is tuple
        parts = [part for part in (type_, *get_args(type_)) if isinstance(part, type)]
        inner = next((part for part in parts if issubclass(part, msgspec.Struct)), None)
        yield name, field.default
        if inner is not None and get_origin(type_) is not dict and not name.endswith("reference.memory"):
            yield from settings(inner, f"{name}[]." if many else f"{name}.")


def test_every_setting_is_listed_with_its_default():
    table, known = listed(generated.settings()), dict(settings(Config))
    assert len(known) > 100 and known.keys() - table.keys() == set()
    for name, default in known.items():
        if isinstance(default, bool):
            assert table[name] == f"`{default}`".lower()
        elif isinstance(default, int | float):
            assert float(table[name].strip("`")) == default, name
        elif isinstance(default, str):
            assert table[name] == f"`{default}`"


def test_every_setting_is_described():
    assert undescribed(generated.settings()) == []


def test_control_a_setting_without_a_description_is_found():
    page = "## a\n\nA part.\n\n| `a.b` | `1` | What it does. |\n| `a.c` | `2` |  |\n\n## d\n\n\n\n| `d.e` | none |\n"
    assert undescribed(page) == ["a.c", "d"]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("router: {reward: {id: survival, curv: own}}", "config.router.reward: is malformed"),
        ("router: {policy: bot, settings: {eta: x}}", "eta: is of type str; pass a number or a schedule"),
        ("router: {alignment: {geometry: {name: labels, label: 3}}}", "geometry.label: is not a setting of labels"),
        ("database: mysql://host/name", "config.database: has the scheme 'mysql'"),
        ("limits: {snapshot_every: 0}", "config.limits.snapshot_every: expected `int` >= 1"),
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

"""The JSON Schema of the configuration accepts what the service accepts, and names what it refuses."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml
from service_running import BASE

from bot_orch.cli import main
from bot_orch.service.config import Config, parse_config
from bot_orch.service.operations.schema import config_schema
from bot_orch.service.quickstart import configuration

ROOT = Path(__file__).parents[2]
CHECK = jsonschema.Draft202012Validator(config_schema())
SMALL = "version: 1\nagents: [{id: a, kind: simulated}]\n"


def documented():
    """Whole configurations that docs and fixtures show."""
    found = {"quickstart": configuration([], file="bot-orch.yaml"), "tests": BASE.format(database="log.sqlite", port=0)}
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for number, block in enumerate(re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)):
            whole = block.replace("{...}", "{base_url: https://host/v1, model: m}")
            found[f"{page.name}-{number}"] = whole.replace("[...]", "[{id: a, kind: simulated}]")
    for file in [*(ROOT / "tests" / "fixtures" / "logs").glob("*.yaml")]:
        found[file.name] = file.read_text().format(database="log.sqlite", port=0)
    return found


def is_configuration(document):
    return isinstance(document, dict) and set(document) <= set(Config.__struct_fields__)


EXAMPLES = {name: document for name, text in documented().items() if is_configuration(document := yaml.safe_load(text))}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_validate(name):
    document = EXAMPLES[name]
    if name != "quickstart":  # parts of a file: what is required may be elsewhere
        document = {"version": 1, "agents": [{"id": "a", "kind": "simulated"}], **document}
    assert [error.message for error in CHECK.iter_errors(document)] == []


def test_there_are_examples():
    assert {"quickstart", "tests"} < set(EXAMPLES) and len(EXAMPLES) >= 12


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (SMALL + "rooter: {}", ()),
        (SMALL + "router: {floor: high}", ("router", "floor")),
        (SMALL + "listen: {port: '80'}", ("listen", "port")),
        ("version: 1\nagents: [{id: a, kind: robot}]", ("agents", 0, "kind")),
        ("version: 1\nagents: [{id: a, kind: openai, base_uri: x}]", ("agents", 0)),
        ("version: 1\nagents: [{id: a, kind: openai, endpoints: [{url: x}]}]", ("agents", 0, "endpoints", 0)),
        ("version: 1\nagents: [{id: a, kind: simulated, timeout_s: long}]", ("agents", 0, "timeout_s")),
        ("version: 1\nagents: [{id: a, kind: simulated, lacks: [wings]}]", ("agents", 0, "lacks", 0)),
        ("version: 1\nagents: [{id: a, kind: simulated, price: {wings: 2}}]", ("agents", 0, "price")),
        ("version: 2\nagents: []", ("version",)),
    ],
)
def test_mistakes_are_found_where_they_are(text, place):
    errors = list(CHECK.iter_errors(yaml.safe_load(text)))
    assert place in {tuple(error.absolute_path) for error in errors}


def test_what_validates_is_accepted_by_the_service():
    parse_config(SMALL)
    assert not list(CHECK.iter_errors(yaml.safe_load(SMALL)))


def test_every_part_is_described():
    schema = config_schema()
    assert schema["$schema"].endswith("2020-12/schema")
    CHECK.check_schema(schema)
    for name, part in schema["$defs"].items():
        assert len(part["description"]) > 15, name
        assert "``" not in part["description"] and ">>>" not in part["description"], name
    price = schema["$defs"]["Price"]["properties"]
    assert price["input_usd_per_million"]["description"] == price["output_usd_per_million"]["description"] != ""


def test_quickstart_writes_the_schema_that_the_first_line_names(tmp_path, capsys):
    assert main(["quickstart", "--write", "--simulated", "--yes", str(tmp_path / "my.yaml")]) == 0
    first = (tmp_path / "my.yaml").read_text().splitlines()[0]
    name = re.fullmatch(r"# yaml-language-server: \$schema=(.+)", first)[1]
    assert json.loads((tmp_path / name).read_text()) == config_schema()
    capsys.readouterr()
    assert main(["validate", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out) == config_schema()

"""docs/reference/map.md names for each noun the module that defines it."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"
ROW = re.compile(r"^\| (\w+) \| `([\w.]+)` \| `(\w+)(?:\.(\w+))?` \|", re.MULTILINE)
NOUNS = (
    *("policy", "reference", "claim", "penalty", "cost", "floor", "reward", "outcome", "decision", "event", "store"),
    *(
        "agent",
        "guard",
        "judge",
        "ticket",
        "environment",
        "experiment",
        "entrant",
        "condition",
        "encoder",
        "constraint",
    ),
)


def table(text=None):
    return ROW.findall(text or (ROOT / "docs" / "reference" / "map.md").read_text())


def definitions(path):
    """Names that a module defines itself, with the attributes that its classes declare."""
    found = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = {
                each.target.id
                for each in node.body
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
            }
        elif isinstance(node, ast.Assign):
            found |= {each.id: set() for each in node.targets if isinstance(each, ast.Name)}
    return found


def missing(rows):
    """Rows whose module does not define what they say."""
    wrong = []
    for noun, module, name, attribute in rows:
        known = definitions(SRC / f"{module.replace('.', '/')}.py")
        if name not in known or (attribute and attribute not in known[name]):
            wrong.append(f"{noun}: {module} does not define {name}{'.' + attribute if attribute else ''}")
    return wrong


def test_every_noun_is_in_the_map_once():
    assert tuple(row[0] for row in table()) == NOUNS


def test_the_map_is_true():
    assert missing(table()) == []


@pytest.mark.parametrize(
    "row", ["| policy | `bot_orch.policies.base` | `Guide` |", "| floor | `bot_orch.core.settings` | `Settings.flor` |"]
)
def test_control_a_wrong_row_is_found(row):
    assert missing(table(row))

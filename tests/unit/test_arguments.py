"""At most three arguments are positional; the others are keyword-only."""

import ast
from pathlib import Path

import pytest

import bot_orch

PACKAGE = Path(bot_orch.__file__).parent
SERVICE = PACKAGE / "service"
LIBRARY = ("core", "policies", "agents", "transport")
# Constructors and functions that users call, numerical code, and what is made for every decision: their arguments
# stay positional.
PUBLIC = {
    "core": {"Alignment", "Drawn", "Prepared", "Reference", "SurvivalReward", "WithContext"},
    "policies": {
        *("Choice", "EMA", "EXP3", "Feedback", "KeptRows", "Situation", "ThompsonBeta"),
        "ThompsonGaussian",
    },
    "agents": {
        *(
            "BreakerSettings",
            "CallReply",
            "CallRequest",
            "Capabilities",
            "Chunk",
            "HumanAnswer",
            "Limits",
            "OpenAISettings",
            "Retry",
        ),
        "SimulatedSettings",
    },
    "transport": {
        *("Bures", "CostCloud", "Distances", "DriftMonitor", "Gaussian", "Geometry"),
        *("Scalars", "Scores", "Sliced", "confidence", "update", "push_window", "_push_one"),
    },
}
STRUCTS = ("Struct", "_Part", "RequestBody", "ResponseView")  # kw_only is not inherited
MOST = 3
#: the numerical code of auto
NUMBERS = {"policies/auto.py"}


def too_many(text):
    """Functions and constructors that take more than three arguments by position."""
    tree = ast.parse(text)
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    methods = {id(each) for node in classes for each in node.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            static = any(ast.unparse(each) == "staticmethod" for each in node.decorator_list)
            count = len(node.args.posonlyargs) + len(node.args.args) - (id(node) in methods and not static)
        elif isinstance(node, ast.ClassDef):
            count = fields(node)
        else:
            continue
        if count > MOST:
            yield node.name


def fields(node):
    """How many fields of a record are set by position; none for other classes."""
    made = [ast.unparse(each) for each in (*node.bases, *node.decorator_list)]
    if not any(each.startswith("dataclass") or each.split(".")[-1] in (*STRUCTS, "NamedTuple") for each in made):
        return 0
    if any(each.arg == "kw_only" for each in node.keywords) or any("kw_only=True" in each for each in made):
        return 0
    count = 0
    for each in node.body:
        if isinstance(each, ast.AnnAssign):
            if ast.unparse(each.annotation) == "KW_ONLY":
                break
            count += 1
    return count


def test_arguments_beyond_the_third_are_named():
    files = sorted(SERVICE.rglob("*.py"))
    assert len(files) > 50
    assert {str(file): found for file in files if (found := list(too_many(file.read_text(encoding="utf-8"))))} == {}


@pytest.mark.parametrize("package", LIBRARY)
def test_arguments_of_internal_functions_beyond_the_third_are_named(package):
    files = [file for file in (PACKAGE / package).rglob("*.py") if file.relative_to(PACKAGE).as_posix() not in NUMBERS]
    found = {name for file in files for name in too_many(file.read_text(encoding="utf-8"))}
    assert found == PUBLIC[package]


@pytest.mark.parametrize(
    "text",
    [
        "def f(a, b, c, d): pass",
        "class C:\n    async def f(self, a, b, c, d=1): pass",
        "class C:\n    @staticmethod\n    def f(a, b, c, d): pass",
        "@dataclass(frozen=True)\nclass f:\n    a: int\n    b: int\n    c: int\n    d: int",
        "class f(NamedTuple):\n    a: int\n    b: int\n    c: int\n    d: int",
        "class f(msgspec.Struct, frozen=True):\n    a: int\n    b: int\n    c: int\n    d: int",
    ],
)
def test_a_fourth_is_found(text):
    assert list(too_many(text)) == ["f"]


def test_named_ones_are_not():
    text = "@dataclass\nclass C:\n    a: int\n    b: int\n    c: int\n    _: KW_ONLY\n    d: int\n"
    assert list(too_many(text + "def f(a, b, c, *, d): pass\n")) == []

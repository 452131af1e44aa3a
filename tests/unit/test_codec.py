"""The one reader of files that people write; both of its users refuse the same mistakes with file and line."""

import pytest

from bot_orch.cli.main import main
from bot_orch.codec import parse_yaml, read_text
from bot_orch.errors import BotOrchError, InvalidInputError

pytest.importorskip("yaml")

MISTAKES = {
    "a: 1\nb: 2\na: 3": "f:3: a: occurs twice",
    "a: {x: 1, y: 2, x: 3}": "f:1: x: occurs twice",
    "a:\n  - {k: 1}\n  - {k: 1,\n     k: 2}": "f:4: k: occurs twice",
    "1: a\n1: b": "f:2: 1: occurs twice",
    "a: 1\nb: [": "f:2: is not YAML",
    "a: b: c": "f:1: is not YAML (mapping values are not allowed here)",
    "a: 1\n\tb: 2": "f:2: is not YAML",
    "a: 1\nb: \x07": "f:2: is not YAML",
    "a: *unknown": "f:1: is not YAML (found undefined alias",
    "? [x]\n: 1": "f:1: is not YAML (found unhashable key",
    "a: !!python/object/apply:os.system [true]": "f:1: is not YAML (could not determine a constructor",
    "a: 1\n---\nb: 2": "is not YAML (but found another document",
    "a: 2024-13-45": "cannot be read",
    "[" * 50_000: "nested too deeply",
}


@pytest.mark.parametrize("text", MISTAKES, ids=lambda text: text[:20])
def test_mistakes_in_yaml_get_one_line_that_names_where(text):
    with pytest.raises(InvalidInputError) as caught:
        parse_yaml(text, "f")
    said = str(caught.value)
    assert MISTAKES[text] in said and "\n" not in said and said.startswith("f:"), said


def test_what_is_merged_may_be_overridden():
    text = "base: &base {a: 1, b: 2}\nmore: {<<: *base, a: 3}"
    assert parse_yaml(text, "f")["more"] == {"a": 3, "b": 2}
    assert parse_yaml("a: {x: 1}\nb: {x: 1}\nc: [{x: 1}, {x: 2}]", "f")["c"] == [{"x": 1}, {"x": 2}]


def test_files_are_small_and_in_utf_8(tmp_path):
    (tmp_path / "c.yaml").write_text("ä: 1", encoding="utf-8")
    assert read_text(tmp_path / "c.yaml") == "ä: 1"
    (tmp_path / "a.yaml").write_bytes(b"a: \xe4")
    with pytest.raises(InvalidInputError, match=r"a.yaml: is not UTF-8 \(byte 3\)"):
        read_text(tmp_path / "a.yaml")
    (tmp_path / "b.yaml").write_text("#" * 1_000_001)
    with pytest.raises(InvalidInputError, match="is too large"):
        read_text(tmp_path / "b.yaml")


def test_without_yaml_it_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    with pytest.raises(BotOrchError, match="optional dependency"):
        parse_yaml("a: 1", "f")


@pytest.mark.parametrize("text", ["a: 1\nb: 2\na: 3", "a: 1\nb: [", "x: 2024-13-45", "a: 1\nb: \x07"])
def test_the_command_line_reads_with_it(text, tmp_path, capsys):
    (tmp_path / "c.yaml").write_text(text)
    assert main(["validate", str(tmp_path / "c.yaml")]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    with pytest.raises(InvalidInputError) as caught:
        parse_yaml(text, "c.yaml")
    assert line.endswith(str(caught.value)), "both say the same"

"""Docs are tested: the README's Python runs, examples run, links lead somewhere."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from bot_orch.core.context import WithContext
from bot_orch.policies import registry

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), ROOT / "skill" / "SKILL.md", *(ROOT / "docs").rglob("*.md")])
EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))


def blocks(text):
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def prose_of(page):
    return re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)


def headings(page):
    """As they are written in links."""
    found = re.findall(r"^#+ (.*)$", prose_of(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.strip().lower()).replace(" ", "-") for heading in found}


def shown(text):
    """Python blocks, each with the output that the page shows right after it, or None."""
    pairs = re.findall(r"```python\n(.*?)```(?:\s*```text\n(.*?)```)?", text, re.DOTALL)
    return [(block, output or None) for block, output in pairs if not block.startswith(">>>")]


def differences(text, name, capsys):
    """What the blocks of a page print beside what it shows, where that differs."""
    found = []
    for block, output in shown(text):
        exec(compile(block, name, "exec"), {"__name__": "docs"})  # noqa: S102
        printed = capsys.readouterr().out
        if output is not None and printed != output:
            found.append((printed, output))
    return found


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """Policies that a page registers are gone after it."""
    monkeypatch.setattr(registry, "_extra", dict(registry._extra))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_blocks_run_and_print_what_is_shown(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert differences(page.read_text(), str(page), capsys) == []


def test_control_a_changed_row_is_found(capsys):
    page = "```python\nprint('0.5517')\n```\n\n```text\n{}\n```\n"
    assert differences(page.format("0.5517"), "page", capsys) == []
    assert differences(page.format("0.5518"), "page", capsys) == [("0.5517\n", "0.5518\n")]


def large_shares(output, kind):
    return [int(share) for share in re.findall(rf"'{kind}': '(\d+)% to large'", output)]


def test_the_readme_demo_learns(capsys):
    (demo, *_) = blocks((ROOT / "README.md").read_text())
    assert len([line for line in demo.splitlines() if line.strip()]) <= 20
    exec(compile(demo, "README.md", "exec"), {"__name__": "docs"})  # noqa: S102
    output = capsys.readouterr().out
    translate, prove = large_shares(output, "translate"), large_shares(output, "prove")
    assert len(translate) == len(prove) == 3
    assert translate[0] > translate[-1] <= 10 and prove[0] < prove[-1] >= 90


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_readme_demo_does_not_depend_on_roundings(seed, capsys, monkeypatch):
    """Other processors round features and rewards differently; the page's output has room for that."""
    rng, features, demo = np.random.default_rng(seed), WithContext.features, shown((ROOT / "README.md").read_text())[0]

    def rounded(self, state, raw):
        found = features(self, state, raw)
        return found if found is None else found + 1e-7 * rng.normal(size=found.shape)

    monkeypatch.setattr(WithContext, "features", rounded)
    source = demo[0].replace("reward=float(correct)", "reward=abs(correct - 1e-7 * world_noise())")
    assert source != demo[0]
    exec(compile(source, "README.md", "exec"), {"__name__": "docs", "world_noise": rng.random})  # noqa: S102
    assert capsys.readouterr().out == demo[1]


def test_the_winner_of_the_readme_demo_is_not_fixed_beforehand(capsys):
    """With the skills of the two kinds exchanged, the traffic is, too."""
    (demo, *_) = blocks((ROOT / "README.md").read_text())
    turned = demo.replace('"small": {"translate": 0.9, "prove": 0.2}', '"small": {"translate": 0.2, "prove": 0.9}')
    assert turned != demo
    exec(compile(turned, "README.md", "exec"), {"__name__": "docs"})  # noqa: S102
    output = capsys.readouterr().out
    assert large_shares(output, "translate")[-1] >= 90 and large_shares(output, "prove")[-1] <= 10


def test_the_readme_demo_uses_the_defaults():
    (demo, *_) = blocks((ROOT / "README.md").read_text())
    names: dict[str, object] = {"__name__": "docs"}
    exec(compile(demo, "README.md", "exec"), names)  # noqa: S102
    assert names["decision"].policy == "auto@1"
    assert not re.search(r"policy|lambda_|floor|units", demo), "the first snippet names a setting"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_local_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)]+)\)", prose_of(page)):
        path, _, heading = target.partition("#")
        if not target.startswith(("http", "mailto")):
            found = page.parent / path if path else page
            assert found.exists(), f"{page.name}: {target}"
            assert not heading or heading in headings(found), f"{page.name}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_are_named_exist(page):
    for name in re.findall(r"`((?:tests|src|benchmarks|examples|docs)/[\w/.-]+)", prose_of(page)):
        assert (ROOT / name).exists(), f"{page.name}: {name}"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_examples_run(example, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out.strip()


def test_there_are_examples():
    numbers = [int(path.name[:2]) for path in EXAMPLES]
    assert len(set(numbers)) == len(EXAMPLES) >= 13 and min(numbers) == 1


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_fits_a_screen_and_shows_a_choice(example):
    most = 75 if example.name == "05_your_own_policy.py" else 48  # that one is two
    assert len(example.read_text().splitlines()) <= most
    assert f"({'../../examples/' + example.name})" in (ROOT / "docs" / "how-to" / "choosing.md").read_text()

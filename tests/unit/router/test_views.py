"""What people see: one line, a table, rows, DataFrames, figures."""

import re
import subprocess
import sys

import numpy as np
import pytest

from bot_orch import InvalidInputError, Labels, Orchestrator, Outcome, Router, Task


@pytest.fixture
def router():
    router = Router(["a", "<b>"], "ucb1", seed=1, lambda_=1.0, history=50, floor=0.2)
    for number in range(60):
        made = router.decide(Task(f"t-{number}", reference=Labels([0.0, 1.0])))
        if number < 58:
            output = Labels([1.0, 0.0] if made.agent == "a" else [0.0, 1.0])
            router.observe(made.id, Outcome.completed(0.25 if made.agent == "a" else 0.75, output=output))
    return router


def test_one_line_says_who_and_how_far(router):
    assert repr(router) == "<Router [a, <b>] ucb1, 60 rounds, 2 pending>"
    many = Orchestrator([f"agent-{number}" for number in range(9)])
    assert repr(many) == "<Orchestrator [agent-0, agent-1, agent-2, agent-3, ... (9)] auto, 0 rounds, 0 pending>"
    made = many.decide(Task("t-1"))
    assert re.fullmatch(r"<Decision [0-9a-f-]+ task 't-1': 'agent-\d' of 9 agents, p=0\.\d+, auto@1>", repr(made))


def test_tables_for_notebooks_are_escaped_and_right(router):
    html = router._repr_html_()
    assert html.startswith("<table>") and "<b>" not in html and "&lt;b&gt;" in html
    cells = re.findall(r"<td>(.*?)</td>", html)
    shares = {cells[index]: float(cells[index + 1]) for index in (0, 3)}
    assert sum(shares.values()) == pytest.approx(1.0) and shares["&lt;b&gt;"] > shares["a"]
    assert (cells[2], cells[5]) == ("0.250", "0.750") and "2 pending" in html
    decision = router.derive(Task("<script>"))
    assert "<script>" not in decision._repr_html_() and "&gt;" in decision._repr_html_()
    assert Router(["a"])._repr_html_().count("<td>") == 3  # nothing to divide by yet


def test_history_holds_the_last_rounds(router):
    rows = router.history()
    assert len(rows) == 50 and rows[0]["task"] == "t-10"
    assert (rows[-1]["reward"], rows[-1]["completed"]) == (None, None) and rows[0]["completed"] is True
    assert {row["reward"] for row in rows if row["agent"] == "a" and row["reward"] is not None} <= {0.25}
    assert Router(["a"], history=0).history() == []


def test_history_as_a_frame(router):
    frame = router.history().frame()
    assert list(frame.columns) == list(router.history()[0]) and len(frame) == 50
    assert frame[frame.agent == "<b>"]["reward"].dropna().eq(0.75).all()


@pytest.mark.parametrize("kind", ["shares", "rewards", "distances"])
def test_figures_show_every_agent(router, kind, tmp_path):
    figure = router.plot(kind)
    (axes,) = figure.axes
    assert [line.get_label() for line in axes.lines] == ["a", "<b>"] and len(axes.lines[0].get_ydata()) == 50
    figure.savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 5000


def test_figures_show_the_right_numbers(router):
    a, b = (line.get_ydata() for line in router.plot("shares", window=10).axes[0].lines)
    assert np.allclose(a + b, 1.0)
    chosen = [row["agent"] == "a" for row in router.history()]
    assert a[-1] == pytest.approx(np.mean(chosen[-10:])) and a[4] == pytest.approx(np.mean(chosen[:5]))
    a, b = (line.get_ydata() for line in router.plot("rewards").axes[0].lines)
    assert np.nanmax(np.abs(a - 0.25)) < 1e-9 and np.nanmax(np.abs(b - 0.75)) < 1e-9
    a, b = (line.get_ydata() for line in router.plot("distances").axes[0].lines)
    assert a[-1] > b[-1] + 0.1
    assert Router(["a"]).plot().axes


def test_wrong_kinds_and_windows_are_refused(router):
    with pytest.raises(InvalidInputError, match="kind: is 'regret'; choose one of shares, rewards, distances"):
        router.plot("regret")
    with pytest.raises(InvalidInputError, match="window: is 0"):
        router.plot(window=0)


@pytest.mark.parametrize(("module", "call"), [("pandas", "history().frame()"), ("matplotlib", "plot()")])
def test_the_extra_is_named(module, call):
    hidden = f"import sys; sys.modules[{module!r}] = None; sys.modules['{module}.figure'] = None"
    code = f"{hidden}\nfrom bot_orch import Router\nRouter(['a']).{call}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "MissingExtraError" in done.stderr and "[notebook]'" in done.stderr


def test_neither_is_imported_before(tmp_path):
    code = (
        "import sys; from bot_orch import Router\n"
        "repr(Router(['a'])); print(*{'pandas', 'matplotlib'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""

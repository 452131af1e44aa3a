"""The change that a log of mode observe speaks for: a diff of the file as it is written, with its evidence."""

import pytest

from bot_orch import InvalidInputError
from bot_orch.evaluation import proposal
from bot_orch.evaluation.offpolicy import Difference
from bot_orch.evaluation.proposal import changed, propose_mode
from bot_orch.evaluation.savings import Comparison
from bot_orch.strict import parse_yaml

BLOCK = """# the team's file
router:
  # watched since Monday
  mode: observe  # until proven
  floor: 0.05
agents:
  - {id: a, kind: simulated, settings: {mode: observe}}
"""


@pytest.mark.parametrize(
    ("text", "after"),
    [
        (BLOCK, BLOCK.replace("  mode: observe ", "  mode: serve ")),
        ("router: {floor: 0.1}\nversion: 1\n", "router: {mode: serve, floor: 0.1}\nversion: 1\n"),
        ("router:\n  floor: 0.1\n", "router:\n  mode: serve\n  floor: 0.1\n"),
        ("version: 1\n", "version: 1\nrouter: {mode: serve}\n"),
    ],
)
def test_a_setting_changes_and_nothing_else_does(text, after):
    assert changed(text, "mode", "serve", name="f.yaml") == after


def test_a_file_that_hides_the_setting_is_refused():
    text = "base: &base {floor: 0.1, mode: observe}\nrouter: *base\n"
    assert parse_yaml(text, "f.yaml")["router"]["mode"] == "observe"
    with pytest.raises(
        InvalidInputError, match=r"f.yaml: is written in a way that hides router.mode; write mode: serve"
    ):
        changed(text, "mode", "serve", name="f.yaml")


class Log:
    span_s = 86_400.0


def found(monkeypatch, usd, reward, n=400):
    differences = {"usd": Difference(*usd), "reward": Difference(*reward)}
    compared = Comparison("what was served", n, left_out=0, differences=differences, total=1000)
    monkeypatch.setattr(proposal, "observed", lambda rounds, confidence: compared)
    return propose_mode(Log(), loss_at_most=0.02, confidence=0.95)


def test_savings_without_loss_are_proposed_as_a_diff(monkeypatch):
    diff = found(monkeypatch, (-0.01, -0.012, -0.008), (0.001, -0.015, 0.017)).diff(BLOCK, "bot-orch.yaml")
    assert "-  mode: observe  # until proven\n+  mode: serve  # until proven\n" in diff
    assert "# The router, had it served, compared with what was served, 400 of 1000 requests: $10.00" in diff
    assert "--- a/bot-orch.yaml" in diff


@pytest.mark.parametrize(
    ("usd", "reward", "reason"),
    [
        ((-0.01, -0.03, 0.01), (0.0, -0.01, 0.01), "not certainly cheaper"),
        ((-0.01, -0.02, -0.001), (0.0, -0.04, 0.04), "About 1600 compared requests are needed; 3.0 more days"),
        ((-0.01, -0.02, -0.001), (-0.05, -0.06, -0.04), "More requests would not help"),
    ],
)
def test_what_the_log_does_not_support_is_said(monkeypatch, usd, reward, reason):
    proposed = found(monkeypatch, usd, reward)
    assert proposed.value is None
    assert reason in proposed.diff(BLOCK, "bot-orch.yaml")
    assert "+++" not in proposed.diff(BLOCK, "bot-orch.yaml")

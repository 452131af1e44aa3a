"""Sixteen faults of endpoints, as a public scorecard counts them, on a clock ten times as fast."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from faults import FAULTS, config, main, played

SCALE = 0.1


@pytest.fixture(scope="module")
def outcomes():
    return {each.name: each for each in played(scale=SCALE)}


def test_there_are_sixteen():
    assert len(FAULTS) == 16


@pytest.mark.parametrize("name", FAULTS)
def test_a_client_gets_what_it_must(outcomes, name):
    assert outcomes[name].passed, outcomes[name].seen


def test_control_other_settings_fail():
    """The checks can fail: a gateway that does not take over, refer and time out like this one."""

    def worse(text):
        text = text.replace("midstream: continue", "midstream: error").replace("timeout_s: 6 ", "timeout_s: 12 ")
        return text.replace("prefill: message", "context_tokens: 9000\n    prefill: message", 1)

    names = ["silence", "cut", "context_length", "prefill_rejected"]
    found = {each.name: each.passed for each in played(names, scale=SCALE, edit=worse)}
    assert found == dict.fromkeys(names, False)


def test_the_configuration_is_printed(capsys):
    assert main(["--config"]) == 0
    text = capsys.readouterr().out
    assert text.strip() == config("retry_after", ".", "http://127.0.0.1:9000", port=8080, scale=1.0).strip()
    assert "default: error" in text

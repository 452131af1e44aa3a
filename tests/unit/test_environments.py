"""The conformance checks of environments."""

from dataclasses import dataclass, field

import pytest

from bot_orch.lab.sweep.environments import Environment, environments
from bot_orch.testing import check_environment


@pytest.mark.parametrize("name", ["bernoulli", "gaming", "iid-g", "noniid-bb", "triage-noniid"])
def test_environments_conform(name):
    environment = environments()[name]
    assert len(check_environment(environment)) == (4 if environment.divisible else 3)


@dataclass
class Broken(Environment):
    fault: str
    options: dict = field(default_factory=dict)
    calls: int = 0

    def rounds(self, settings):
        return 0 if self.fault == "rounds" else 10

    def aligned(self, settings):
        return True

    def play(self, policy, settings, trial):
        self.calls += 1
        n = len(trial.seeds)
        return {
            "rounds": {"net": [0.0] * n},
            "few": {"net": [0.0]},
            "nan": {"net": [float("nan")] * n},
            "clock": {"net": [float(self.calls)] * n},
            "batch": {"net": [float(n)] * n},
            "nothing": {},
        }[self.fault]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("rounds", "rounds"),
        ("few", "1 values for 3 seeds"),
        ("nan", "not finite"),
        ("clock", "second time"),
        ("batch", "depends on the other seeds"),
        ("nothing", "no metric"),
    ],
)
def test_control_broken_environments_are_caught(fault, said):
    with pytest.raises(AssertionError, match=said):
        check_environment(Broken(fault))

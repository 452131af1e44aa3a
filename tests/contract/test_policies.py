"""Every registered policy passes every conformance check, and every module of the package holds a policy."""

from pathlib import Path

import pytest

import bot_orch.policies
from bot_orch.policies.registry import available_policies, make_policy
from bot_orch.testing.policies import CHECKS

NAMES = sorted(available_policies())


def test_the_suite_covers_every_module():
    modules = {path.stem for path in Path(bot_orch.policies.__file__).parent.glob("*.py")}
    covered = {kind.__module__.rpartition(".")[2] for kind in available_policies().values()}
    assert covered == modules - {"__init__", "base", "registry"}
    assert len(CHECKS) == 12


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", NAMES)
def test_conformance(name, check):
    check(make_policy(name))

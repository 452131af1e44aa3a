"""Every registered policy passes every conformance check, and the suite knows how many there are."""

import pytest

from bot_orch.policies.registry import available_policies, make_policy
from bot_orch.testing.policies import CHECKS

NAMES = sorted(available_policies())
N_POLICIES = 17


def test_the_suite_covers_every_policy():
    assert len(NAMES) == N_POLICIES, "a policy was added or lost: change N_POLICIES on purpose"
    assert len(CHECKS) == 12


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", NAMES)
def test_conformance(name, check):
    check(make_policy(name))

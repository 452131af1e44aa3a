"""Worlds with fixed seeds: texts earn, permuted ones cost little, an agent that improves unseen is found."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import auto_worlds as worlds

CHECKS = (
    worlds.check_words_earn,
    worlds.check_permuted_words_cost_little,
    worlds.check_improvement_is_found,
    worlds.check_doubt_looks_at_rivals,
    worlds.check_a_bad_start_does_not_lock_out,
    worlds.check_safe_agent_is_left,
    worlds.check_doubt_of_others_stays,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_worlds(check):
    check()

"""Every fault an endpoint can have: what the caller hears, the breaker's state, and what is learned."""

from __future__ import annotations

import asyncio

import pytest
from fault_matrix import MATRIX, problems_in
from fault_proxy import FAULTS

from bot_orch.agents import Ending


@pytest.mark.parametrize("cell", MATRIX, ids=lambda cell: cell.name)
def test_cell(cell):
    assert asyncio.run(problems_in(cell)) == []


def test_matrix_covers_every_fault_and_every_ending_an_endpoint_can_cause():
    assert {cell.fault for cell in MATRIX} == set(FAULTS)
    elsewhere = {
        Ending.ABANDONED,  # needs calls before it
        Ending.SHUTDOWN,
        Ending.UNANSWERED,
        Ending.REJECTED,
        Ending.CRASHED,
        Ending.OUT_OF_MEMORY,
        Ending.REFUSED_BREAKER,
        Ending.REFUSED_BUSY,
        Ending.REFUSED_HOLD,
        Ending.REFUSED_ADDRESS,
        Ending.REFUSED_REQUEST,
    }
    assert {cell.ending for cell in MATRIX} == set(Ending) - elsewhere
    assert len(MATRIX) >= 40

"""Placement of routers: everybody is served, nothing moves without need, and the busiest process is relieved."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot_orch.service.cluster.placement import IDLE, RouterLoad, place

LOADS = st.floats(0.0, 1.0, allow_nan=False).map(lambda load: round(load, 3))
OWNERS = st.none() | st.integers(1, 6)
TABLES = st.dictionaries(
    st.text("abcdefgh", min_size=1, max_size=3), st.builds(RouterLoad, OWNERS, LOADS, OWNERS), max_size=24
)
PROCESSES = st.sets(st.integers(1, 6), min_size=1)


def busy(table, placed, processes):
    return {each: sum(IDLE + table[n].load for n, p in placed.items() if p == each) for each in processes}


@given(TABLES, PROCESSES)
def test_every_router_has_a_living_process(table, processes):
    placed = place(table, processes)
    assert placed.keys() == table.keys() and set(placed.values()) <= processes
    assert place(table, set()) == {}


@given(TABLES, PROCESSES)
def test_what_was_placed_stays(table, processes):
    """Without news nothing moves: processes that compute it one after the other agree."""
    placed = place(table, processes)
    settled = {name: RouterLoad(placed[name], held.load) for name, held in table.items()}
    assert place(settled, processes) == placed
    assert place(dict(reversed(settled.items())), sorted(processes, reverse=True)) == placed


@given(TABLES, PROCESSES)
def test_no_single_move_would_help_much(table, processes):
    placed = place(table, processes)
    found = busy(table, placed, processes)
    most, least = max(found.values()), min(found.values())
    for name, process in placed.items():
        weight = IDLE + table[name].load
        if found[process] == most and most - least > 0.1 * most + 1e-9:
            assert min(weight, most - least - weight) < 0.25 * weight + 1e-9


@given(st.integers(0, 40), PROCESSES)
def test_idle_routers_are_spread_by_number(count, processes):
    placed = place({f"r{n}": RouterLoad() for n in range(count)}, processes)
    numbers = [list(placed.values()).count(each) for each in processes]
    assert max(numbers) - min(numbers) <= 1


@given(TABLES, PROCESSES, st.integers(1, 6))
def test_a_process_that_leaves_moves_its_own_routers_first(table, processes, gone):
    """Only routers of the process that left go elsewhere, if the rest is balanced by then."""
    placed = place(table, processes | {gone})
    settled = {name: RouterLoad(placed[name], 0.0) for name in table}
    after = place(settled, processes - {gone})
    if not processes - {gone}:
        assert after == {}
        return
    stayed = [name for name in table if placed[name] != gone]
    moved = [name for name in stayed if after[name] != placed[name]]
    assert len(moved) <= max(0, len(stayed) - len(table) // len(processes - {gone}))


def test_an_heir_takes_what_was_left_for_it():
    table = {"a": RouterLoad(None, 0.0, 2), "b": RouterLoad(1), "c": RouterLoad(2)}
    assert place(table, [1, 2, 3])["a"] != 1
    assert place({"a": RouterLoad(None, 0.3, 2), "b": RouterLoad(1, 0.3)}, [1, 2]) == {"a": 2, "b": 1}
    assert place({"a": RouterLoad(None, 0.3, 9), "b": RouterLoad(1, 0.3)}, [1, 2]) == {"a": 2, "b": 1}, (
        "an heir that is gone"
    )


@pytest.mark.parametrize("loads", list(itertools.permutations([0.6, 0.3, 0.3, 0.0])))
def test_a_hot_router_gets_a_process_of_its_own(loads):
    """All on one process; a second one joins: the best split is 0.6 against 0.3 + 0.3."""
    table = {name: RouterLoad(1, load) for name, load in zip("abcd", loads, strict=True)}
    found = busy(table, place(table, [1, 2]), [1, 2])
    assert max(found.values()) == pytest.approx(0.6 + 2 * IDLE, abs=IDLE + 1e-9)

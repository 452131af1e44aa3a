"""Short runs of the paper's experiments give the recorded numbers.

All tables in full: ``bot-orch reproduce --out out/paper`` and ``python tests/fingerprints/tables.py out/paper``.
After a deliberate change, record the tables again, and say why in the commit.
"""

import pytest
from tables import FULL, QUICK, SHORT, differences, parse, quick, read, with_head

RECORDED = read(SHORT)


def of(name):
    return {key: row for key, row in RECORDED.items() if key[0] == name}


@pytest.mark.parametrize("name", QUICK)
def test_short_runs_give_the_recorded_numbers(name):
    assert of(name)
    assert differences(of(name), parse(with_head([quick(name)]))) == []


def test_all_tables_are_recorded():
    table = read(FULL)
    assert len(table) == 2045
    assert {key[0] for key in table} >= {*QUICK, "synthetic", "triage-splits", "theory-margin"}
    assert {key[0] for key in RECORDED} == set(QUICK)


def test_a_small_difference_is_found():
    """The control: a millionth in one cell, a row less."""
    old = of("theory-structure")
    first, second, *_ = old
    changed = {**old, first: {**old[first], "mean": str(float(old[first]["mean"]) + 1e-6)}}
    del changed[second]
    assert [text.split(": ")[1].split()[0] for text in differences(old, changed)] in (
        ["mean", "gone"],
        ["gone", "mean"],
    )

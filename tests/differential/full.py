"""The whole grid of the differential test: 576 cells of 2000 rounds, live router against batched replay.

Run: python tests/differential/full.py [--rounds 2000] [--seeds 1] [--jobs 2] [--policy auto]
"""

import argparse
import itertools
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from cells import AGENTS, LAMBDAS, POLICIES, SIGNALS, TIMINGS, Cell, differences


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--policy", choices=POLICIES)
    options = parser.parse_args()
    policies = [options.policy] if options.policy else POLICIES
    grid = itertools.product(SIGNALS, LAMBDAS, TIMINGS, policies, AGENTS)
    cells = [Cell(*each, options.rounds, options.seeds) for each in grid]
    different = 0
    with ProcessPoolExecutor(options.jobs) as pool:
        for number, (cell, found) in enumerate(zip(cells, pool.map(differences, cells), strict=True), 1):
            different += bool(found)
            told = f"DIFFERENT {found}" if found else f"equal: {cell}"
            print(f"{number}/{len(cells)} {told}", flush=True)  # noqa: T201
    total = f"{len(cells)} cells of {options.rounds} rounds, {options.seeds} seeds"
    print(f"{total}: {different} different")  # noqa: T201
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())

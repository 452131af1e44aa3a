"""Policies beside a fixed threshold on the classifier's confidence, in the deployable triage over many splits."""

from __future__ import annotations

import argparse

from bot_orch.lab.paper.triage.deferral import SPLITS, table
from bot_orch.policies.registry import make_policy


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("policies", nargs="*", default=["auto"])
    parser.add_argument("--splits", type=int, default=len(SPLITS))
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--condition", choices=("iid", "noniid"), default="noniid")
    given = parser.parse_args()
    policies = {name: make_policy(name) for name in given.policies}
    print(table(policies, range(given.splits), seeds=given.seeds, condition=given.condition))


if __name__ == "__main__":
    main()

"""Tables of docs/evidence/benchmarks.md from folders that ``bot-orch arena`` has written.

    bot-orch arena --policies all --order both --at-most 2000 --out out/league
    bot-orch arena --policies auto auto-no-alignment auto-no-context --order both --at-most 2000 --out out/ablation
    python benchmarks/arena.py league out/league
    python benchmarks/arena.py ablation out/ablation
    bot-orch arena my-matrix.npz --policies auto vw-regcb --conditions all --out out/conditions
    python benchmarks/arena.py conditions out/conditions
    bot-orch arena my-prompts.npz --policies auto linucb --conditions steering false-rewards --out out/attacks
    python benchmarks/arena.py attacks out/attacks

Prints Markdown. Differences are paired: the same seeds, tasks and draws.
"""

from __future__ import annotations

import argparse
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from bot_orch.lab.arena.conditions import CONDITIONS, PLAIN
from bot_orch.lab.arena.league import draws_with_best, league, normalised_under, stage_of

ORDERS = ("shuffled", "given")
Found = dict[tuple[str, str, str], dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=("league", "ablation", "conditions", "attacks"))
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR")
    arguments = parser.parse_args()
    for folder in arguments.folders:
        if not (folder / "results.jsonl").is_file():
            parser.error(f"{folder} holds no results.jsonl; pass a folder that bot-orch arena has written")
    found: Found = {}
    for folder in arguments.folders:
        found |= read(folder)
    tables = {
        "league": print_league,
        "ablation": print_ablation,
        "conditions": print_conditions,
        "attacks": print_attacks,
    }
    tables[arguments.table](found)


def read(folder: Path) -> Found:
    lines = (folder / "results.jsonl").read_text().splitlines()
    documents = [json.loads(line) for line in lines]
    return {tuple(each["unit"].split(" ")): each["payload"] for each in documents}


def values(found: Found, name: str, order: str, policy: str) -> np.ndarray:
    return np.asarray(found[name, order, policy]["metrics"]["normalised"], dtype=float)


def sets(found: Found, order: str) -> list[str]:
    return sorted({key[0] for key in found if key[1] == order})


def players(found: Found) -> list[str]:
    return list(dict.fromkeys(key[2] for key, payload in found.items() if payload["kind"] != "baseline"))


def table(head: list[str], rows: list[list[str]]) -> None:
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)


def print_league(found: Found) -> None:
    orders = {order: league(found, order) for order in ORDERS}
    by_name = {order: {s.policy: s for s in standings} for order, standings in orders.items()}
    rows = []
    for first in orders["shuffled"]:
        row = [f"`{first.policy}`", "peer" if found[first_key(found, first.policy)]["kind"] == "peer" else ""]
        for order in ORDERS:
            s = by_name[order][first.policy]
            row += [f"{s.mean:.3f} ± {s.error:.3f}", f"{s.best_or_draw} of {s.sets}", f"{s.worst:.2f}"]
        rows.append(row)
    table(["policy", "", *("shuffled", "best or draw", "worst"), *("given", "best or draw", "worst")], rows)
    rows = []
    for name in sets(found, "shuffled"):
        row = [f"`{name}`"]
        for order in ORDERS:
            mine = {policy: values(found, name, order, policy) for policy in players(found)}
            others = {policy: v for policy, v in mine.items() if policy != "auto"}
            best = max(others, key=lambda policy: others[policy].mean())
            gap = mine["auto"] - others[best]
            error = gap.std(ddof=1) / np.sqrt(len(gap))
            mark = "" if "auto" in draws_with_best(mine) else " **loses**"
            row += [
                f"{mine['auto'].mean():.2f}",
                f"`{best}` {others[best].mean():.2f}",
                f"{gap.mean():+.2f} ± {error:.2f}{mark}",
            ]
        rows.append(row)
    table(
        ["data set", *("auto, shuffled", "best other", "difference"), *("auto, given", "best other", "difference")],
        rows,
    )


def first_key(found: Found, policy: str) -> tuple[str, str, str]:
    return next(key for key in found if key[2] == policy)


def print_ablation(found: Found) -> None:
    without = [policy for policy in players(found) if policy != "auto"]
    orders = [order for order in ORDERS if sets(found, order)]
    rows = []
    for name in sets(found, orders[0]):
        row = [f"`{name}`"]
        for order in orders:
            row.append(f"{values(found, name, order, 'auto').mean():.2f}")
            row += [difference(found, name, order, policy) for policy in without]
        rows.append(row)
    mean = [
        f"**{np.mean([values(found, name, order, policy).mean() for name in sets(found, order)]):.3f}**"
        for order in orders
        for policy in ("auto", *without)
    ]
    head = [f"{part}, {order}" for order in orders for part in ("auto", *(p.removeprefix("auto-") for p in without))]
    table(["data set", *head], [*rows, ["**mean**", *mean]])


def difference(found: Found, name: str, order: str, policy: str) -> str:
    """A policy's value, and whether it differs from auto's by more than two standard errors."""
    gap = values(found, name, order, policy) - values(found, name, order, "auto")
    error = gap.std(ddof=1) / np.sqrt(len(gap))
    mark = "" if abs(gap.mean()) <= 2.0 * error + 1e-12 else " ▲" if gap.mean() > 0 else " ▼"
    return f"{values(found, name, order, policy).mean():.2f}{mark}"


def print_conditions(found: Found) -> None:
    """Means over sets by condition and policy; then every set: auto, the best other, the paired difference."""
    catalogue, names = [PLAIN, *CONDITIONS], players(found)
    stages = sorted(dict.fromkeys(key[1] for key in found), key=lambda stage: catalogue.index(stage_of(stage)[1]))
    tables = {stage: normalised_under(found, *stage_of(stage)) for stage in stages}
    rows = []
    for stage, by_set in tables.items():
        means = {
            name: np.mean([values[name].mean() for values in by_set.values()])
            for name in names
            if all(name in values for values in by_set.values())
        }
        top = max(means.values())
        cells = [
            f"**{means[n]:.2f}**" if means.get(n) == top else f"{means[n]:.2f}" if n in means else "" for n in names
        ]
        rows.append([f"`{stage_of(stage)[1]}`", *cells])
    table(["condition", *(f"`{name}`" for name in names)], rows)
    rows = []
    for stage, by_set in tables.items():
        for name, mine in by_set.items():
            others = {policy: v for policy, v in mine.items() if policy != "auto"}
            best = max(others, key=lambda policy: others[policy].mean())
            gap = mine["auto"] - others[best]
            error = gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else 0.0
            mark = "" if "auto" in draws_with_best(mine) else " **loses**"
            auto, other = mine["auto"].mean(), f"`{best}` {others[best].mean():.2f}"
            change = f"{gap.mean():+.2f} ± {error:.2f}{mark}"
            rows.append([f"`{stage_of(stage)[1]}`", f"`{name}`", f"{auto:.2f}", other, change])
    table(["condition", "data set", "auto", "best other", "difference"], rows)
    same = [v for payload in found.values() for v in payload["metrics"].get("unchanged", [])]
    if same:
        print(f"Choices unchanged by restarts: {np.mean(same):.4f}, {len(same)} runs.\n")


def print_attacks(found: Found) -> None:
    """Cost of steering by set and policy; normalised reward by share of callers that report false rewards."""
    rows = []
    for (name, stage, policy), payload in found.items():
        if stage_of(stage)[1] == "steering" and "steered" in payload["metrics"]:
            mean = {key: float(np.mean(payload["metrics"][key])) for key in payload["metrics"]}
            spent = mean.get("cost_usd", np.nan) - mean.get("cost_usd_change", np.nan)
            dear = "" if np.isnan(spent) else f"{spent:.3g}, {100.0 * mean['cost_usd_change'] / spent:+.1f} %"
            steered = f"{mean['unsteered']:.3f} to {mean['steered']:.3f}"
            rows.append([f"`{name}`", f"`{policy}`", steered, f"{mean['reward_change']:+.4f}", dear])
    if rows:
        head = ["data set", "policy", "target's share of attacked prompts", "reward per task", "dollars per task"]
        table(head, rows)
    stages = [PLAIN, *(name for name in CONDITIONS if name.startswith("false-rewards"))]
    shares = [0.0 if stage == PLAIN else int(stage.rpartition("/")[2]) / 100 for stage in stages]
    by = {stage: normalised_under(found, "shuffled", stage) for stage in stages}
    if not all(by.values()):
        return
    rows = []
    for policy in players(found):
        for name in by[PLAIN]:
            means = [float(by[stage][name][policy].mean()) for stage in stages]
            rows.append([f"`{name}`", f"`{policy}`", *(f"{value:.2f}" for value in means), broken(shares, means)])
    table(["data set", "policy", *(f"{share:.0%} lie" for share in shares), "no better than chance from"], rows)


def broken(shares: list[float], means: list[float]) -> str:
    """The share at which the mean, interpolated, is zero."""
    for (a, x), (b, y) in pairwise(zip(shares, means, strict=True)):
        if x > 0.0 >= y:
            return f"{a + (b - a) * x / (x - y):.0%}"
    return f"beyond {shares[-1]:.0%}"


if __name__ == "__main__":
    main()

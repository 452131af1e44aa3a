"""Cheats that look different, and cheats that do not: lambda, audits, and both.

    python benchmarks/adversaries.py --out out/adversaries

Cheats win the judge above every honest agent. Lambda auto compares outputs with references; audits tell the truth about
a random tenth of the rounds, and the judge's bias per agent is subtracted. The policy is `auto` with the default floor,
1000 tasks. Honest only: the same without the cheats and without guards. Sleepers are scored from the round in which
they turn. Four matrices, five seeds each; the priors of the bias were set on other matrices and seeds. Prints the table
of docs/evidence/benchmarks.md and writes its figure.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bot_orch.arrays import Bools, Floats
from bot_orch.core.settings import Lambda
from bot_orch.lab.environments.gaming import GamingSettings, gaming_matrix
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.replay.bandit import Replay
from bot_orch.lab.harness.experiment import Results
from bot_orch.lab.harness.figures import new_figure, save_figure
from bot_orch.lab.harness.players import PolicyPlayer, play
from bot_orch.policies.auto import Auto

AIM = 0.9
_NEAR = 0.15  # worth of the weakest honest agent, whose outputs are copied


@dataclass(frozen=True, slots=True)
class AdversaryCase:
    """An environment with cheats.

    ``late``: only the second half of the rounds is scored, when sleepers are cheats.
    """

    settings: GamingSettings
    _: KW_ONLY
    late: bool = False


def _case(*cheats: str, agents: int = 10, late: bool = False, **settings: Any) -> AdversaryCase:
    return AdversaryCase(GamingSettings(agents=agents, cheats=cheats, features=0, **settings), late=late)


CASES: dict[str, AdversaryCase] = {
    "constant output": _case("constant"),
    "prompt handed back": _case("copy"),
    "padded answer": _case("length"),
    "85 % colluding constants": _case(*["collude"] * 17, agents=20),
    "half-way to the reference": _case("halfway"),
    "copy of a weak agent": _case("weak", worst_honest=_NEAR),
    "three such copies": _case("weak", "weak", "weak", worst_honest=_NEAR),
    "sleeper turns constant": _case("sleeper", late=True),
    "sleeper turns weak copy": _case("quiet", late=True, worst_honest=_NEAR),
    "references for 10 %": _case("constant", referenced=0.1),
    "0/1 verdicts, half-way": _case("halfway", binary=True),
    "0/1 verdicts, three copies": _case("weak", "weak", "weak", worst_honest=_NEAR, binary=True),
    "no cheat": _case(),
    "0/1 verdicts, no cheat": _case(binary=True),
}


@dataclass(frozen=True, slots=True)
class Method:
    """A policy: its lambda, and the share of rounds that are audited."""

    lambda_: Lambda = 0.0
    audit_rate: float = 0.0
    _: KW_ONLY
    honest_only: bool = False


PLAYED: dict[str, Method] = {
    "lambda 0": Method(),
    "lambda auto": Method("auto"),
    "audits": Method(0.0, 0.1),
    "audits, lambda auto": Method("auto", 0.1),
    "honest only": Method(honest_only=True),
}
#: The last two are computed: an even draw among all agents, and the best honest one in hindsight.
METHODS = (*PLAYED, "random", "best honest")

_LOOK = {
    "random": ("#757575", "^"),
    "lambda 0": ("#c62828", "s"),
    "lambda auto": ("#ef6c00", "D"),
    "audits": ("#1a4fa0", "v"),
    "audits, lambda auto": ("#00796b", "o"),
}


def ratio(results: Results, case: str, method: str) -> Floats:
    """True reward of every seed, divided by that of *honest only* on the same tasks."""
    found, honest = (np.array(results[f"{case}/{name}"]["true_reward"]) for name in (method, "honest only"))
    return np.asarray(found / honest.mean())


def draw_adversaries(results: Results) -> Any:
    """True reward relative to honest only, one row per case, one mark per method."""
    cases = [case for case in CASES if f"{case}/honest only" in results]
    figure, axes = new_figure(1, 1, 8.5, 0.42 * len(cases) + 1.6)
    axis, rows = axes[0, 0], np.arange(len(cases))[::-1]
    axis.axvspan(AIM, 1.2, color="#00796b", alpha=0.07, linewidth=0)
    axis.axvline(AIM, color="#00796b", linestyle="--", linewidth=1)
    axis.axvline(1.0, color="black", linewidth=1)
    for offset, (name, (color, marker)) in zip(np.linspace(0.28, -0.28, len(_LOOK)), _LOOK.items(), strict=True):
        values = [ratio(results, case, name) for case in cases]
        mean = np.array([each.mean() for each in values])
        error = np.array([2.0 * each.std(ddof=1) / np.sqrt(each.size) if each.size > 1 else 0.0 for each in values])
        look = {"color": color, "marker": marker, "linestyle": "none", "markersize": 5}
        axis.errorbar(mean, rows + offset, xerr=error, label=name, elinewidth=1, **look)
    axis.set_yticks(rows, cases)
    axis.set_ylim(-0.6, len(cases) - 0.4)
    axis.set_xlim(0.0, 1.1)
    axis.set_xlabel("true reward / true reward among the honest agents alone (dashed: 0.9)")
    figure.legend(*axis.get_legend_handles_labels(), loc="outside upper center", ncols=len(_LOOK))
    return figure


_FIRST, _PER_MATRIX = 10, 5  # seeds 0 to 9 are those that the priors were set on; every five share a matrix
_FLOOR = 0.02  # the default of an orchestrator


def run(params: Mapping[str, Any]) -> dict[str, Any]:
    seeds = list(range(_FIRST, _FIRST + params["seeds"]))
    found: dict[str, list[float]] = {"true_reward": [], "cheats": []}
    for block in sorted({seed // _PER_MATRIX for seed in seeds}):
        mine = [seed for seed in seeds if seed // _PER_MATRIX == block]
        for name, values in _block(params, block, mine).items():
            found[name] += values.tolist()
    return found


def _block(params: Mapping[str, Any], block: int, seeds: list[int]) -> dict[str, Floats]:
    """True rewards and shares of cheats of the seeds that share a matrix."""
    case = CASES[params["case"]]
    settings = case.settings if params["tasks"] is None else replace(case.settings, tasks=params["tasks"])
    matrix = gaming_matrix(settings, seed=block, name=f"adversaries-{block}")
    if params["method"] in PLAYED and PLAYED[params["method"]].honest_only:
        matrix = _honest_only(matrix)
    scored = slice(settings.tasks // 2 if case.late else 0, None)
    truth = np.zeros((0,)) if matrix.true_reward is None else matrix.true_reward
    if params["method"] not in PLAYED:
        return _baseline(matrix, truth[scored], params["method"], seeds=len(seeds))
    method = PLAYED[params["method"]]
    replay = Replay(matrix, "given", settings.tasks, seeds=seeds, audit_rate=method.audit_rate)
    agent = play(PolicyPlayer(Auto(), replay.setup, method.lambda_, floor=_FLOOR), replay).agent[scored]
    return {
        "true_reward": truth[replay.rows[scored], agent].mean(axis=0),
        "cheats": _is_cheat(matrix)[agent].mean(axis=0),
    }


def _honest_only(matrix: Matrix) -> Matrix:
    """The same tasks without the cheats."""
    keep = np.flatnonzero(~_is_cheat(matrix))
    columns = {name: getattr(matrix, name)[:, keep] for name in ("reward", "true_reward", "output_embed")}
    return replace(matrix, agents=tuple(matrix.agents[i] for i in keep), **columns)


def _baseline(matrix: Matrix, truth: Floats, name: str, *, seeds: int) -> dict[str, Floats]:
    cheat = _is_cheat(matrix)
    value = truth.mean() if name == "random" else truth[:, ~cheat].mean(axis=0).max()
    share = cheat.mean() if name == "random" else 0.0
    return {"true_reward": np.full(seeds, value), "cheats": np.full(seeds, share)}


def _is_cheat(matrix: Matrix) -> Bools:
    return np.array([name.startswith("cheat") for name in matrix.agents])


def table(results: Results) -> str:
    """Markdown: true rewards relative to honest only, its own, and the share of cheats under both guards."""
    shown = [name for name in METHODS if name != "honest only"]
    lines = [f"| of honest only | {' | '.join(shown)} | honest only | cheats, audits and lambda auto |"]
    lines.append("|---" * (len(shown) + 3) + "|")
    for case in (case for case in CASES if f"{case}/honest only" in results):
        cells = [float(ratio(results, case, name).mean()) for name in shown]
        cells.append(float(np.mean(results[f"{case}/honest only"]["true_reward"])))
        cells.append(float(np.mean(results[f"{case}/audits, lambda auto"]["cheats"])))
        lines.append(f"| {case} | {' | '.join(f'{cell:.3f}' for cell in cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--tasks", type=int, help="fewer tasks, for a first look")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("out/adversaries"), metavar="DIR")
    given = parser.parse_args()
    common = {"seeds": given.seeds, "tasks": given.tasks}
    keys = [(case, method) for case in CASES for method in METHODS]
    with ProcessPoolExecutor(given.jobs) as pool:
        found = pool.map(run, [{"case": case, "method": method, **common} for case, method in keys])
        results = {f"{case}/{method}": payload for (case, method), payload in zip(keys, found, strict=True)}
    print(table(results))
    print(save_figure(lambda: draw_adversaries(results), given.out / "adversaries")[0])


if __name__ == "__main__":
    main()

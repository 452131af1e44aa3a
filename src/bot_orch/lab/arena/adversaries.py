"""Cases of the experiment on adversaries, and its figure."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.core.settings import Lambda
from bot_orch.lab.environments.gaming import GamingSettings
from bot_orch.lab.harness.experiment import Results
from bot_orch.lab.harness.figures import new_figure

__all__ = ["AIM", "CASES", "METHODS", "PLAYED", "AdversaryCase", "Method", "draw_adversaries", "ratio"]

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

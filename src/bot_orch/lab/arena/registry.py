"""Find an entrant by name and build its player."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache, partial
from typing import Literal

from bot_orch.core.settings import Lambda
from bot_orch.errors import InvalidInputError
from bot_orch.lab.environments.replay.bandit import Setup
from bot_orch.lab.harness.players import Player, PolicyPlayer
from bot_orch.policies.base import Policy
from bot_orch.policies.registry import available_policies, make_policy

Kind = Literal["ours", "peer", "baseline"]


@dataclass(frozen=True, slots=True)
class Entrant:
    """A policy or peer with its settings: a name, a one-sentence description, and a factory of its player.

    ``default`` entrants play when ``--policies`` names none; a ``peer`` wraps another library.
    """

    name: str
    about: str
    build: Callable[[Setup], Player]
    _: KW_ONLY
    kind: Kind = "ours"
    default: bool = True


BEST_SINGLE = "best-single"
#: Reported with every result; computed, not played.
BASELINES = {
    BEST_SINGLE: "the best single agent on the tasks played, known in hindsight: by mean reward, and by solved, "
    "par10 and true_reward in the columns of these",
    "random": "the expected result of choosing evenly among eligible agents",
    "oracle": "the best agent of every task",
}
#: The row of the agent that stands for what the user does now; reported too.
NOW = "now"
NOW_ABOUT = "always one agent: that of --baseline, else the most expensive, else the best"
#: Reported in addition where a budget is given.
BUDGET_BASELINES = {
    "cheapest": "the single agent with the lowest mean cost",
    "hull": "the best mix of two fixed agents within the budget, known in hindsight",
    "oracle-budget": "the best agents within the budget, with every outcome known",
}
_extra: dict[str, Entrant] = {}


def register(entrant: Entrant) -> Entrant:
    """Register an entrant in this process; modules in ``arena.entrants`` are available in every process."""
    _extra[entrant.name] = entrant
    return entrant


def discover_entrants() -> dict[str, Entrant]:
    """Every entrant by name: modules of ``arena.entrants``, then any other policy of the package, then registered."""
    found = dict(_shipped())
    for name, policy in available_policies().items():
        if name not in found and name not in BASELINES:
            found[name] = Entrant(name, _summary(policy), partial(_plain, name), default=policy.default_entrant)
    return {**found, **_extra}


def find_entrants(names: Sequence[str] | None) -> list[str]:
    """The requested entrants, in order and validated; by default all our default entrants."""
    known = discover_entrants()
    if not names:
        return [name for name, entrant in known.items() if entrant.default and entrant.kind == "ours"]
    chosen: list[str] = []
    for name in names:
        if name in ("all", "ours", "peers"):
            kinds = {"all": ("ours", "peer"), "ours": ("ours",), "peers": ("peer",)}[name]
            chosen += [key for key, entrant in known.items() if entrant.default and entrant.kind in kinds]
        elif name in known:
            chosen.append(name)
        elif name not in BASELINES and name not in BUDGET_BASELINES:  # those are always reported
            raise InvalidInputError("--policies", f"no policy {name!r}", "see bot-orch arena --list-policies")
    return list(dict.fromkeys(chosen))


def with_lambdas(names: Sequence[str], lambdas: Sequence[Lambda]) -> list[str]:
    """Every policy that takes alignment into account once per lambda, as ``bot@1``; the others once.

    Examples
    --------
    >>> with_lambdas(["bot", "random"], [0.0, 2.0])
    ['bot@0', 'bot@2', 'random']
    """
    policies = available_policies()
    aligned = {name for name in names if name in policies and policies[name].uses_alignment}
    if lambdas and not aligned:
        raise InvalidInputError("--lambda", "changes none of the policies", "name one such as auto, bot or ucb1")
    words = [value if isinstance(value, str) else f"{value:g}" for value in lambdas]
    return [each for n in names for each in ([f"{n}@{word}" for word in words] if words and n in aligned else [n])]


def entrant(name: str) -> Entrant:
    """The entrant of that name, which may end with a lambda, as in ``bot@1``."""
    base, at, word = name.rpartition("@")
    known = discover_entrants()
    if not at:
        return known[name]
    lambda_: Lambda = "auto" if word == "auto" else float(word)
    return Entrant(name, f"{base} with lambda {word}", partial(_plain, base, lambda_=lambda_), default=False)


def _summary(policy: type[Policy]) -> str:
    """First line of the docstring, without its reference."""
    return (inspect.getdoc(policy) or "with its default settings").partition("\n")[0].removesuffix(" [1]_.")


def _plain(name: str, setup: Setup, lambda_: Lambda = 0.0) -> Player:
    return PolicyPlayer(make_policy(name), setup, lambda_)


@lru_cache(maxsize=1)
def _shipped() -> dict[str, Entrant]:
    package = importlib.import_module("bot_orch.lab.arena.entrants")
    found: dict[str, Entrant] = {}
    for module in sorted(m.name for m in pkgutil.iter_modules(package.__path__)):
        for entrant in importlib.import_module(f"{package.__name__}.{module}").ENTRANTS:
            found[entrant.name] = entrant
    return found

"""Definition of a sweep: a grid of policies, environments, lambdas and rounds over seeds, read from a file."""

from __future__ import annotations

import difflib
import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import Any

from bot_orch.errors import BotOrchError, InvalidInputError
from bot_orch.lab.environments.matrix.find import dataset_name, expand, fingerprint
from bot_orch.lab.harness.experiment import Unit
from bot_orch.lab.sweep.environments import MATRIX, Trial, environments
from bot_orch.policies.base import Policy
from bot_orch.policies.registry import available_policies, from_spec, make_policy
from bot_orch.strict import read


def check_keys(where: str, given: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse unknown keys.

    Examples
    --------
    >>> check_keys("sweep", {"polices": []}, ["policies", "seeds"])
    Traceback (most recent call last):
    bot_orch.errors.InvalidInputError: sweep.polices: is not known; did you mean policies?
    """
    for key in given:
        if key not in known:
            raise InvalidInputError(f"{where}.{key}", "is not known", nearest(str(key), known))


def nearest(word: str, known: Collection[str]) -> str:
    """The remedy for an unknown word: the nearest known one, or the list of all."""
    close = difflib.get_close_matches(word, [str(k) for k in known], n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else f"choose from {', '.join(sorted(known)) or 'none'}"


def mapping(where: str, value: Any) -> dict[str, Any]:
    """Return ``value`` if it is a mapping with text keys, else raise an error."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise InvalidInputError(where, f"is {value!r}", "write keys and values, such as seeds: 20")
    return value


def listed(where: str, value: Any) -> list[Any]:
    """A non-empty list, or a single value as a list of one."""
    items = value if isinstance(value, list) else [value]
    if not items:
        raise InvalidInputError(where, "is empty", "name at least one")
    return items


def text(where: str, value: Any) -> str:
    """Return ``value`` if it is a non-empty text, else raise an error."""
    if not isinstance(value, str) or not value:
        raise InvalidInputError(where, f"is {value!r}", "write a name")
    return value


def number(where: str, value: Any) -> float:
    """``value`` as a number, 0 or more."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise InvalidInputError(where, f"is {value!r}", "write a number, 0 or more, such as 0.5 or 1.0e+3")
    return float(value)


def count(where: str, value: Any, most: float = math.inf) -> int:
    """Return ``value`` if it is an integer from 1 to ``most``, else raise an error."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        range_ = "1 or more" if most == math.inf else f"1 to {most:,}"
        raise InvalidInputError(where, f"is {value!r}", f"write a whole number, {range_}")
    return value


_KEYS = ("name", "policies", "environments", "lambda", "seeds", "rounds", "score_lambda", "seeds_per_unit")
#: A unit plays about this many rounds: seconds of work, a few hundred megabytes.
_ROUNDS_PER_UNIT = {"auto": 100_000}
_ROUNDS_PER_CHEAP_UNIT = 2_000_000
_MOST_SEEDS_PER_UNIT = 500
#: Seeds that step together share what a step costs in Python: from here on more of them make it no cheaper.
_LEAST_SEEDS_PER_UNIT = {"auto": 64}
_MOST_SEEDS = 10_000_000
_FAMILIES = {"estimator": "estimator", "history": "history"}


@dataclass(frozen=True, slots=True)
class SweepEntrant:
    """A policy with settings, and its label in results."""

    label: str
    name: str
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """An environment with settings, its label and protocol in results, and the data it reads."""

    label: str
    name: str
    settings: Mapping[str, Any]
    _: KW_ONLY
    protocol: str
    rounds: int
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class SweepCell:
    """One policy in one environment with one lambda."""

    entrant: SweepEntrant
    place: Place
    lambda_: float

    @property
    def key(self) -> str:
        """The key of its results in the log."""
        return f"{self.place.label}/{self.place.protocol}/{self.entrant.label}/{self.lambda_:g}"


@dataclass(frozen=True, slots=True)
class Sweep:
    """A grid of entrants, environments and lambdas, over seeds."""

    name: str
    entrants: Sequence[SweepEntrant]
    places: Sequence[Place]
    _: KW_ONLY
    lambdas: Sequence[float]
    seeds: int
    score_lambda: float
    seeds_per_unit: int | None = None

    def cells(self) -> Iterator[SweepCell]:
        """Every combination; only lambda 0 where lambda has no effect."""
        known = environments()
        for place in self.places:
            aligned = known[place.name].aligned(place.settings)
            for entrant in self.entrants:
                uses = aligned and build(entrant.name, entrant.settings).uses_alignment
                for value in self.lambdas if uses else (0.0,):
                    yield SweepCell(entrant, place, value)

    def units(self, cell: SweepCell) -> list[Unit]:
        """A cell split into blocks of seeds, one per worker."""
        block = self._block(cell)
        params = {
            "policy": cell.entrant.name,
            "policy_settings": dict(cell.entrant.settings),
            "environment": cell.place.name,
            "environment_settings": dict(cell.place.settings),
            "rounds": cell.place.rounds,
            "lambda": cell.lambda_,
            "score_lambda": self.score_lambda,
        }
        starts = range(0, self.seeds, block)
        return [
            Unit(f"{cell.key}/{start}", {**params, "seeds": [start, min(start + block, self.seeds)]})
            for start in starts
        ]

    def check(self) -> None:
        """Play a round of every policy and in every environment, so that a bad setting shows before the first unit."""
        first, trial = (self.entrants[0], self.places[0]), Trial([0], 2, lambda_=1.0, score_lambda=1.0)
        for c, p in [*((c, first[1]) for c in self.entrants), *((first[0], p) for p in self.places[1:])]:
            try:
                environments()[p.name].play(build(c.name, c.settings), p.settings, trial)
            except BotOrchError:
                raise
            except (TypeError, ValueError, KeyError, ArithmeticError) as error:
                raise InvalidInputError(f"{c.label} in {p.label}", str(error), "correct the settings") from error

    def settings(self) -> dict[str, Any]:
        """Everything that determines the results, as plain data; matrices by contents, not by path."""
        return {
            "name": self.name,
            "policies": [[c.label, c.name, dict(c.settings)] for c in self.entrants],
            "environments": [
                [p.label, p.name, {k: v for k, v in p.settings.items() if k != "path"}, p.rounds, p.fingerprint]
                for p in self.places
            ],
            "lambda": list(self.lambdas),
            "seeds": self.seeds,
            "score_lambda": self.score_lambda,
            "seeds_per_unit": self.seeds_per_unit,
        }

    def _block(self, cell: SweepCell) -> int:
        if not environments()[cell.place.name].divisible:
            return self.seeds
        rounds = _ROUNDS_PER_UNIT.get(cell.entrant.name, _ROUNDS_PER_CHEAP_UNIT)
        fitting = min(_MOST_SEEDS_PER_UNIT, rounds // cell.place.rounds)
        return self.seeds_per_unit or max(_LEAST_SEEDS_PER_UNIT.get(cell.entrant.name, 1), fitting)


def build(name: str, settings: Mapping[str, Any]) -> Policy:
    """Build a policy from plain settings; ``{id: mean, prior: 2}`` stands for an estimator, a history or a schedule."""
    policy: Policy = make_policy(name, **{key: _part(key, value) for key, value in settings.items()})
    return policy


def policy_settings(name: str) -> list[str]:
    """Names of the settings of a policy."""
    policy: Any = available_policies()[name]
    return [f.name for f in fields(policy)]


def read_sweep(path: Path) -> Sweep:
    """Read and check a file; paths in it are relative to it."""
    top = mapping(path.name, read(path, path.name))
    check_keys(path.name, top, _KEYS)
    for key in ("policies", "environments"):
        if key not in top:
            raise InvalidInputError(f"{path.name}.{key}", "is missing", "name at least one")
    lambdas = [number("lambda", value) for value in listed("lambda", top.get("lambda", 0.0))]
    rounds = [count("rounds", value) for value in listed("rounds", top["rounds"])] if "rounds" in top else []
    entrants = [c for item in listed("policies", top["policies"]) for c in _entrants(item)]
    places = [p for item in listed("environments", top["environments"]) for p in _places(item, rounds, path.parent)]
    _no_twins("policies", [c.label for c in entrants])
    _no_twins("environments", [f"{p.label} ({p.protocol})" for p in places])
    _no_twins("lambda", [f"{value:g}" for value in lambdas])
    return Sweep(
        text("name", top.get("name", path.stem)),
        entrants,
        places,
        lambdas=lambdas,
        seeds=count("seeds", top.get("seeds", 20), most=_MOST_SEEDS),
        score_lambda=number("score_lambda", top.get("score_lambda", max(lambdas))),
        seeds_per_unit=count("seeds_per_unit", top["seeds_per_unit"]) if "seeds_per_unit" in top else None,
    )


def _entrants(item: Any) -> list[SweepEntrant]:
    given = {"name": item} if isinstance(item, str) else mapping("policies", item)
    check_keys("policies", given, ("name", "label", "settings", "grid"))
    name = text("policies.name", given.get("name"))
    known = available_policies()
    if name not in known:
        raise InvalidInputError("policies", f"no policy {name!r}", nearest(name, known))
    settings, label = mapping(name, given.get("settings", {})), text(f"{name}.label", given.get("label", name))
    grid = {key: listed(f"{name}.grid.{key}", value) for key, value in mapping(name, given.get("grid", {})).items()}
    made = []
    for values in itertools.product(*grid.values()):
        picked = dict(zip(grid, values, strict=True))
        tail = ",".join(f"{key}={_short(value)}" for key, value in picked.items())
        made.append(SweepEntrant(f"{label}({tail})" if tail else label, name, {**settings, **picked}))
        _check_settings(made[-1])
    return made


def _check_settings(entrant: SweepEntrant) -> None:
    name, settings, where = entrant.name, entrant.settings, f"policies.{entrant.label}"
    check_keys(f"policies.{name}", settings, policy_settings(name))
    for key, value in settings.items():
        if key in _FAMILIES and not isinstance(value, Mapping):
            raise InvalidInputError(f"{where}.{key}", f"is {value!r}", "write keys and values, such as {id: mean}")
        if isinstance(value, str):
            raise InvalidInputError(f"{where}.{key}", f"is {value!r}", "write a number, or keys and values")
    try:
        build(name, settings)
    except InvalidInputError as error:
        raise InvalidInputError(f"{where}.{error.field}", error.problem, error.remedy) from error
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidInputError(where, str(error), "correct its settings") from error


def _places(item: Any, rounds: Sequence[int], folder: Path) -> list[Place]:
    given = {"name": item} if isinstance(item, str) else mapping("environments", item)
    known = environments()
    by_path = MATRIX in given
    check_keys("environments", given, (MATRIX if by_path else "name", "label", "settings", "rounds"))
    name = MATRIX if by_path else text("environments.name", given.get("name"))
    if name not in known or (name == MATRIX and not by_path):
        advice = "write matrix: PATH" if name.endswith(".npz") or name == MATRIX else nearest(name, known)
        raise InvalidInputError("environments", f"no environment {name!r}", advice)
    environment, settings = known[name], dict(mapping(name, given.get("settings", {})))
    check_keys(f"environments.{name}", settings, environment.options)
    label, contents = name, ""
    if by_path:
        (found,) = expand([folder / text("environments.matrix", given[MATRIX])])[:1]
        settings["path"], label, contents = str(found.resolve()), dataset_name(found), fingerprint(found)
    if environment.fixed and "rounds" in given:
        raise InvalidInputError(f"environments.{name}.rounds", "cannot be set", "its length is given by its data")
    wanted = (
        [count(f"{name}.rounds", r) for r in listed(f"{name}.rounds", given["rounds"])] if "rounds" in given else rounds
    )
    lengths = [environment.rounds(settings)] if environment.fixed or not wanted else list(wanted)
    label = text(f"{name}.label", given.get("label", label))
    protocol = str({**environment.options, **settings}.get(environment.protocol, environment.protocol))
    return [
        Place(
            f"{label}@{length}" if len(lengths) > 1 else label,
            name,
            settings,
            protocol=protocol,
            rounds=length,
            fingerprint=contents,
        )
        for length in lengths
    ]


def _part(key: str, value: Any) -> Any:
    """Fill in the family of a nested part from the name of the setting."""
    if not isinstance(value, Mapping):
        return value
    inside = {k: _part(k, v) for k, v in value.items()}
    return from_spec({"family": _FAMILIES.get(key, "schedule"), **inside})


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        return str(value.get("id", "?")) + "".join(
            f":{_short(v)}" for k, v in value.items() if k not in ("id", "family")
        )
    return f"{value:g}" if isinstance(value, float) else str(value)


def _no_twins(where: str, labels: Sequence[str]) -> None:
    for label in labels:
        if labels.count(label) > 1:
            raise InvalidInputError(where, f"{label!r} occurs twice", "drop one, or give it a label of its own")

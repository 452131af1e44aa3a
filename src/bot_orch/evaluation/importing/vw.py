"""Import from Vowpal Wabbit: contextual bandit text (one line or one block per decision) and dsjson."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bot_orch.evaluation.importing.foreign import Foreign, ImportOptions, ImportPlace, Reader
from bot_orch.evaluation.importing.tables import lines_of

_LABEL = "write action:cost:probability"


def read_vw(path: Path, options: ImportOptions, reader: Reader) -> Iterator[Foreign]:
    """Read a file: lines that begin with a brace as dsjson, others as text."""
    group: list[tuple[ImportPlace, str]] = []
    for place, line in lines_of(path):
        if line.lstrip().startswith("{"):
            yield from _dsjson(place, line, options, reader=reader)
        elif line.strip():
            group.append((place, line))
        else:
            yield from _group(group, options)
            group = []
    yield from _group(group, options)


def _group(group: list[tuple[ImportPlace, str]], options: ImportOptions) -> Iterator[Foreign]:
    """Parse lines between blank ones: actions of one decision, or one decision each if all lines have a label."""
    if group and (group[0][1].startswith("shared") or not all(_label(line) for _, line in group)):
        yield _block(group, options)
    else:
        yield from (_lone(place, line, options) for place, line in group)


def _label(line: str) -> str:
    return line.partition("|")[0].strip()


def _lone(place: ImportPlace, line: str, options: ImportOptions) -> Foreign:
    label, bar, rest = line.partition("|")
    if not bar:
        raise place.error("features", "no '|' in the line", "write action:cost:probability | features")
    words = label.split()
    if len(words) > 1 and words[-1].startswith("'"):
        words = words[:-1]  # the tag
    costs = [word for word in words if ":" in word]
    if len(costs) != 1:
        raise place.error("label", f"{len(costs)} actions have a cost", _LABEL)
    reward, p = _cost(place, costs[0], options)
    action = _name(place, costs[0].partition(":")[0], options)
    eligible = tuple(_name(place, word.partition(":")[0], options) for word in words) if len(words) > 1 else ()
    return Foreign(place, action, reward=reward, propensity=p, eligible=eligible, features=_features(place, rest))


def _block(block: list[tuple[ImportPlace, str]], options: ImportOptions) -> Foreign:
    """Parse one line per action, with an optional ``shared`` line first; actions are numbered from 1."""
    place, first = block[0]
    shared = first.partition("|")[2] if first.startswith("shared") else ""
    actions = block[1:] if first.startswith("shared") else block
    labelled = [(number, at, line) for number, (at, line) in enumerate(actions, start=1) if _label(line)]
    if len(labelled) != 1:
        raise place.error("label", f"{len(labelled)} actions of the block have a cost", "label the chosen action alone")
    number, at, line = labelled[0]
    words = _label(line).split()
    reward, p = _cost(at, words[0], options)
    names = tuple(_name(at, str(each), options) for each in range(1, len(actions) + 1))
    return Foreign(
        at, names[number - 1], reward=reward, propensity=p, eligible=names, features=_features(place, shared)
    )


def _cost(place: ImportPlace, label: str, options: ImportOptions) -> tuple[float | None, float]:
    parts = label.split(":")
    if len(parts) != 3:
        raise place.error("label", f"is {label[:40]!r}", _LABEL)
    cost = options.scaled(place, "cost", place.number("cost", parts[1]), cost=True)
    p = place.number("probability", parts[2], low=0.0, high=1.0)
    if p is None:
        raise place.error("probability", "is missing", _LABEL)
    return cost, p


def _name(place: ImportPlace, action: str, options: ImportOptions) -> str:
    if not options.agents:
        return place.text("action", action) or "1"
    if not (action.isascii() and action.isdigit() and 1 <= int(action[:9]) <= len(options.agents)):
        raise place.error("action", f"is {action[:40]!r}", f"--agents names actions 1 to {len(options.agents)}")
    return options.agents[int(action) - 1]


def _features(place: ImportPlace, text: str) -> dict[str, float]:
    """``|space name:value name |other ...``: numbers by ``space^name``, 1 without a value."""
    found: dict[str, float] = {}
    for number, part in enumerate(text.split("|")):
        words = part.split()
        named = bool(part) and not part[0].isspace() and bool(words)
        space, _, weight = words[0].partition(":") if named else ("", "", "")
        scale = place.number("weight of a namespace", weight) if weight else 1.0
        for word in words[1:] if named else words:
            name, _, value = word.partition(":")
            size = place.number(f"feature {name[:40]}", value) if value else 1.0
            key = f"{space}^{name}" if space or number else name
            found[key] = found.get(key, 0.0) + (1.0 if size is None else size) * (1.0 if scale is None else scale)
    return found


def _dsjson(place: ImportPlace, line: str, options: ImportOptions, *, reader: Reader) -> Iterator[Foreign]:
    record = place.object("line", place.json("line", line))
    if "_label_cost" not in record:  # a dangling observation, or a decision that is not to be learned from
        return
    cost = options.scaled(place, "_label_cost", place.number("_label_cost", record["_label_cost"]), cost=True)
    actions, p = record.get("a"), record.get("p")
    if not (isinstance(actions, list) and isinstance(p, list) and actions and len(actions) == len(p)):
        raise place.error("a, p", "are no two lists of the same length", "write the ranked actions and probabilities")
    names = [_name(place, place.text("a", action), options) for action in actions]
    numbers = [place.number("p", value, low=0.0, high=1.0) or 0.0 for value in p]
    label = record.get("_label_Action", record.get("_label_action", actions[0]))
    shared = {k: v for k, v in place.object("c", record.get("c")).items() if not k.startswith("_")}
    yield Foreign(
        place,
        _name(place, place.text("_label_Action", label), options),
        reward=cost,
        propensity=place.number("_label_probability", record.get("_label_probability"), low=0.0, high=1.0),
        propensities=dict(zip(names, numbers, strict=True)),
        features=dict(_flat(place, "c", shared)),
        decision_id=place.text("EventId", record.get("EventId")),
        time_us=place.time_us("Timestamp", record.get("Timestamp")),
    )
    known = ("_label_cost", "_label_probability", "_label_Action", "_labelIndex", "a", "p", "c", "EventId", "Timestamp")
    reader.ignore(name for name in record if name not in known)


def _flat(place: ImportPlace, path: str, value: Any, *, depth: int = 0) -> Iterator[tuple[str, float]]:
    """Numbers by their path; a text is a feature that is 1."""
    if isinstance(value, Mapping) and depth < 20:
        for name, inner in value.items():
            if not str(name).startswith("_"):
                yield from _flat(place, f"{path}.{name}", inner, depth=depth + 1)
    elif isinstance(value, list) and depth < 20:
        for index, inner in enumerate(value):
            yield from _flat(place, f"{path}.{index}", inner, depth=depth + 1)
    elif isinstance(value, bool | int | float):
        found = place.number(path, float(value) if abs(value) < 1e300 else math.inf)
        yield path, found or 0.0
    elif isinstance(value, str) and value:
        yield f"{path}={value}", 1.0

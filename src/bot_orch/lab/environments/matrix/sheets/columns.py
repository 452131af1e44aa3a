"""Column names and their roles; notes about unread columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

ROLES: dict[str, tuple[str, ...]] = {
    "task": (
        *("task", "task_id", "doc_id", "instance_id", "question_id", "example_id", "sample_id", "prompt_id"),
        *("query_id", "request_id", "item_id", "problem_id", "instance", "item", "id", "idx", "index"),
    ),
    "agent": (
        *("agent", "agent_id", "agent_name", "model", "model_id", "model_name", "llm", "system", "solver"),
        *("algorithm", "engine", "assistant", "annotator"),
    ),
    "reward": (
        *("reward", "score", "accuracy", "acc", "resolved", "correct", "is_correct", "success", "passed", "pass"),
        *("pass_rate", "pass_at_1", "exact_match", "em", "solved", "quality", "rating", "f1", "acc_norm"),
    ),
    "cost_usd": (
        *("cost_usd", "cost", "usd", "dollars", "price", "price_usd", "total_cost", "total_cost_usd", "spend"),
    ),
    "seconds": (
        *("seconds", "latency_s", "latency", "time_s", "duration_s", "duration", "elapsed_s", "elapsed"),
        *("runtime_s", "runtime", "time", "response_time", "wall_time"),
    ),
    "milliseconds": ("milliseconds", "latency_ms", "duration_ms", "elapsed_ms", "time_ms", "response_time_ms"),
    "text": ("text", "prompt", "question", "query", "input", "request", "instruction", "problem_statement"),
    "claim": ("claim", "stated_confidence"),
    "trial": ("trial", "trial_id", "run", "run_id", "repeat", "repetition", "replicate", "attempt", "epoch", "seed"),
    "true_reward": ("true_reward",),
    "event": ("event", "completed", "finished"),
    "cutoff_s": ("cutoff_s", "cutoff", "timeout_s", "time_limit_s", "time_limit"),
    "status": ("status", "runstatus"),
}
#: Columns that begin with this hold numbers known before the choice, and those that begin with GROUP name groups.
FEATURE, GROUP = "feature_", "task_"
#: What spreadsheets call a column or a row that sums others up.
SUMMARIES = ("average", "avg", "mean", "median", "total", "sum", "std", "stdev")
#: Known by name, and not read, with the reason.
ASIDE = {
    "confidence": "call it claim if every agent states it before the choice",
    "unnamed__0": "an index",
    "level_0": "an index",
    **dict.fromkeys(SUMMARIES, "a summary of other columns; give an agent of this name another one"),
}


def plain(name: str) -> str:
    """The name in lower case with underscores, character by character.

    Examples
    --------
    >>> plain("Cost (USD)")
    'cost__usd_'
    """
    low = "".join(c.lower() if len(c.lower()) == 1 else c for c in name)
    return "".join(c if c.isalnum() else "_" for c in low)


def named_role(name: str) -> str | None:
    """The role of a column by its full name, or None.

    Examples
    --------
    >>> named_role("Model Name"), named_role("Cost (USD)"), named_role("pass@1"), named_role("gpt")
    ('agent', 'cost_usd', 'reward', None)
    """
    return next((role for role, names in ROLES.items() if _word(name) in names), None)


def _word(name: str) -> str:
    return "_".join(part for part in plain(name.replace("@", "_at_")).split("_") if part)


def role_of(names: Iterable[str], role: str) -> list[str]:
    """Columns with this role, that with the earliest name in :data:`ROLES` first."""
    found = [name for name in names if named_role(name) == role]
    return sorted(found, key=lambda name: ROLES[role].index(_word(name)))


def split_role(name: str) -> tuple[str, str] | None:
    """(agent, role) of a column such as ``small_cost``, ``small|total_cost`` or ``latency_small``; None for others.

    Examples
    --------
    >>> split_role("gpt-4|total_cost"), split_role("cost_usd gpt-4"), split_role("gpt-4")
    (('gpt-4', 'cost_usd'), ('gpt-4', 'cost_usd'), None)
    >>> split_role("gpt-4 cost ($)"), split_role("gpt-4 latency (ms)")
    (('gpt-4', 'cost_usd'), ('gpt-4', 'milliseconds'))
    """
    parts = list(re.finditer("[^_]+", plain(name)))  # of the same places as in the name
    names = {each: role for role in OUTCOMES for each in ROLES[role]}
    for count in range(len(parts) - 1, 0, -1):
        role = names.get("_".join(part[0] for part in parts[-count:]))
        if role is not None:
            return name[: parts[-count].start()].rstrip(_BETWEEN), role
    for count in range(len(parts) - 1, 0, -1):
        role = names.get("_".join(part[0] for part in parts[:count]))
        if role is not None:
            return name[parts[count - 1].end() :].lstrip(_BETWEEN), role
    return None


def measures(column: str, agent: str) -> bool:
    """Whether a column is the name of an agent and a word more.

    Names of models are extended by ``-``, ``.`` and ``/``, so that there, and before the name, only a unit counts.

    Examples
    --------
    >>> measures("small_usd_per_call", "small"), measures("mid ($)", "mid"), measures("gpt-4-eur", "gpt-4")
    (True, True, True)
    >>> measures("gpt-4-mini", "gpt-4"), measures("smaller", "small"), measures("small", "small")
    (False, False, False)
    """
    long, short = plain(column), plain(agent)
    start = len(short)
    after = long.startswith(short) and column[start : start + 1] in tuple(_BETWEEN)
    if after and column[start] in _AFTER_NAMES:
        return True
    before = long.endswith(short) and column[-start - 1 : -start] in tuple(_BETWEEN)
    words = long[start:] if after else long[:-start] if before else ""
    return not _UNITS.isdisjoint(words.split("_"))


_BETWEEN = " |:._-/()[]"
_AFTER_NAMES = " |:_()[]"
_UNITS = {"usd", "eur", "gbp", "dollar", "dollars", "euro", "euros", "cent", "cents", "token", "tokens", "ms"}
#: Roles that a table with a column per agent may have for each.
OUTCOMES = ("reward", "cost_usd", "seconds", "milliseconds", "claim", "true_reward")


def columns_not_read(names: Sequence[str]) -> list[str]:
    """Notes that name every column left out, and how it could be read.

    Examples
    --------
    >>> columns_not_read(["difficulty", "confidence"])
    ["not read: 'confidence' (call it claim if every agent states it before the choice)",
     "not read: 'difficulty' (call a column feature_NAME if it is a number known before the choice)"]
    """
    notes, rest = [], []
    for name in names:
        why, role = ASIDE.get(plain(name)), named_role(name)
        if why is not None:
            notes.append(f"not read: {name!r} ({why})")
        elif role in ("reward", "cost_usd", "seconds", "milliseconds", "text"):
            notes.append(f"not read: {name!r} (another column is read as {role}; call this one {role} to read it)")
        else:
            rest.append(name)
    if rest:
        words = ", ".join(map(repr, rest))
        notes.append(f"not read: {words} (call a column feature_NAME if it is a number known before the choice)")
    return notes

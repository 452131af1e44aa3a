"""A change of the configuration that a log speaks for, as a diff with its evidence; nothing is changed here."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass

from bot_orch.errors import InvalidInputError
from bot_orch.evaluation.lambda_choice import LambdaChoice
from bot_orch.evaluation.rounds import LoggedRounds
from bot_orch.evaluation.savings import observed
from bot_orch.strict import parse_yaml

_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Proposal:
    """A value for one setting of the router; without ``value`` the evidence does not support a change."""

    setting: str
    value: str | None
    _: KW_ONLY
    evidence: tuple[str, ...]

    def diff(self, text: str, name: str) -> str:
        """The evidence as comments, and the difference to a configuration ``text`` of the file ``name``."""
        lines = "".join(f"# {line}\n" for each in self.evidence for line in each.splitlines())
        if self.value is None:
            return lines
        after = changed(text, self.setting, self.value, name=name)
        made = difflib.unified_diff(text.splitlines(True), after.splitlines(True), f"a/{name}", f"b/{name}")
        return lines + "".join(line if line.endswith("\n") else f"{line}\n" for line in made)


def propose_mode(rounds: LoggedRounds, *, loss_at_most: float, confidence: float) -> Proposal:
    """``mode: serve``, if in mode ``observe`` the router was certainly cheaper and lost at most ``loss_at_most``."""
    found = observed(rounds, confidence=confidence)
    if found is None:
        problem = "holds no request of mode observe"
        raise InvalidInputError("log", problem, "serve in mode observe first, or compare lambdas with --lambdas")
    evidence = [f"The router, had it served, compared with {found}"]
    usd, quality = found.differences.get("usd"), found.differences.get("reward")
    if usd is None or quality is None:
        return Proposal("mode", None, evidence=(*evidence, "No change: dollars or rewards are not known well enough."))
    if usd.high >= 0.0:
        evidence.append("No change: the router is not certainly cheaper.")
    elif quality.low < -loss_at_most:
        evidence.append(f"No change: a loss of {-quality.low:.3f} a request is possible, {loss_at_most:g} is allowed.")
        margin, half = quality.value + loss_at_most, quality.value - quality.low
        if margin <= 0.0:
            evidence.append("More requests would not help: the estimated loss is larger than that.")
        else:
            needed = math.ceil(found.n * (half / margin) ** 2)
            evidence.append(f"About {needed} compared requests are needed{_days(needed - found.n, found.n, rounds)}.")
    else:
        evidence.append(f"Loss of at most {max(0.0, -quality.low):.3f} a request ({loss_at_most:g} is allowed).")
        return Proposal("mode", "serve", evidence=tuple(evidence))
    return Proposal("mode", None, evidence=tuple(evidence))


def propose_lambda(found: LambdaChoice) -> Proposal:
    """The lambda that is better than the configured one beyond doubt, if there is one."""
    choice = found.choice
    value = f"{choice.recommended}" if choice.changed else None
    return Proposal("lambda", value, evidence=(found.text(),))


def changed(text: str, setting: str, value: str, *, name: str) -> str:
    """The YAML ``text`` with another value of ``router.setting``, and everything else as it was written.

    Examples
    --------
    >>> print(changed("router: {mode: observe, seed: 1}  # ours", "mode", "serve", name="bot-orch.yaml"))
    router: {mode: serve, seed: 1}  # ours
    """
    document = parse_yaml(text, name)
    router = document.get("router") or {}
    wanted = {**document, "router": {**router, **parse_yaml(f"{setting}: {value}", name)}}
    for candidate in _candidates(text, setting, value):
        try:
            if parse_yaml(candidate, name) == wanted:
                return candidate
        except InvalidInputError:
            continue
    raise InvalidInputError(name, f"is written in a way that hides router.{setting}", f"write {setting}: {value} there")


def _candidates(text: str, setting: str, value: str) -> Iterator[str]:
    """Texts with the setting replaced, or inserted into a router in block or flow style, or with a router added."""
    for found in re.finditer(rf"(?<![\w.-])({re.escape(setting)}:[ ]*)([^,}}\s#]+)", text):
        yield f"{text[: found.start(2)]}{value}{text[found.end(2) :]}"
    for found in re.finditer(r"^router:[ ]*\{", text, re.MULTILINE):
        yield f"{text[: found.end()]}{setting}: {value}, {text[found.end() :]}"
    for found in re.finditer(r"^router:[^\n{]*\n([ ]+)", text, re.MULTILINE):
        yield f"{text[: found.start(1)]}{found[1]}{setting}: {value}\n{text[found.start(1) :]}"
    yield f"{text.rstrip()}\nrouter: {{{setting}: {value}}}\n"


def _days(more: int, seen: int, rounds: LoggedRounds) -> str:
    """How long that many further comparisons take at the rate of the log."""
    if not rounds.span_s or not seen:
        return ""
    return f"; {max(more, 0) * rounds.span_s / seen / _DAY_S:.1f} more days at the log's rate"

"""Choice of lambda: one policy with several values on the same log, compared row by row.

The rule: lambda changes only if some other one is better beyond doubt, which means that the interval of its paired DR
difference against the configured one lies above zero. These intervals hold together with the stated confidence C, so
a change for the worse is recommended with probability (1 - C) / 2 at most. Among several better ones, the highest DR
value wins. Else the configured lambda stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass

from bot_orch.arrays import Floats
from bot_orch.core.settings import Lambda
from bot_orch.errors import InvalidInputError
from bot_orch.evaluation.evaluate import (
    PATHS,
    Progress,
    TargetPropensities,
    learning_target,
    mean_of_first,
    scores,
)
from bot_orch.evaluation.offpolicy import Difference, Estimate, LogSample, ThinSupportError, difference, evaluate
from bot_orch.evaluation.rounds import LoggedRounds, collect
from bot_orch.evaluation.shadow import shadow
from bot_orch.log.log import Log
from bot_orch.policies.base import Policy


@dataclass(frozen=True, slots=True)
class Candidate:
    """One value of lambda: its DR value and gain over the configured one, or why it is refused."""

    lambda_: Lambda
    value: Estimate | None = None
    gain: Difference | None = None
    _: KW_ONLY
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A recommended lambda, with the reason and the candidates in the order given."""

    configured: Lambda
    recommended: Lambda
    reason: str
    _: KW_ONLY
    candidates: tuple[Candidate, ...]

    @property
    def changed(self) -> bool:
        """Whether the recommended lambda differs from the configured one."""
        return self.recommended != self.configured


@dataclass(frozen=True, slots=True)
class LambdaChoice:
    """Result of :func:`pick_lambda`.

    ``decisions`` were scored, ``missing`` left out, ``revised`` had a reward that was given again. ``learned``: from
    how many decisions the policy learned with each lambda, on average over its paths; its value is that of so many
    first rounds. ``logged_first`` is what the log earned in as many as the configured lambda learned from.
    """

    policy: str
    choice: Recommendation
    decisions: int
    _: KW_ONLY
    missing: int
    revised: int
    logged_mean: float
    learned: Mapping[Lambda, int]
    confidence: float
    logged_first: float | None = None

    def text(self) -> str:
        """A table and the recommendation."""
        c = self.choice
        known = (
            f"{self.decisions} decisions scored, {self.revised} of them by a revised reward, {self.missing} left out"
        )
        interval = f"{100 * self.confidence:g} % interval"
        heads = ("lambda", "DR", interval, "effective n", "learned from", f"against {_name(c.configured)}")
        lines = [f"{self.policy} ({known}; {self._logged()})", _line(heads)]
        return "\n".join([*lines, *map(self._row, c.candidates), f"recommendation: {c.reason}"])

    def _logged(self) -> str:
        """Mean reward of the log: in total, and in as many first rounds as the values below cover."""
        mean, rounds = f"logged mean {self.logged_mean:.4f}", self.learned[self.choice.configured]
        return mean if self.logged_first is None else f"{mean}, in its first {rounds} rounds {self.logged_first:.4f}"

    def _row(self, candidate: Candidate) -> str:
        name, e, d = _name(candidate.lambda_), candidate.value, candidate.gain
        if e is None:
            return f"  {name:<8}refused; {candidate.refused}"
        gain = "" if d is None else f"{d.value:+.4f} [{d.low:+.4f}, {d.high:+.4f}]"
        learned = str(self.learned[candidate.lambda_])
        return _line((name, f"{e.value:.4f}", f"[{e.low:.4f}, {e.high:.4f}]", f"{e.effective_n:.0f}", learned, gain))


def pick_lambda(
    log: Log,
    policy: Policy | str,
    lambdas: Iterable[Lambda],
    *,
    confidence: float = 0.95,
    min_effective: float = 50.0,
    max_missing: float = 0.5,
    audited: bool = False,
    paths: int = PATHS,
    progress: Progress | None = None,
) -> LambdaChoice:
    """Evaluate a policy with several lambdas on the same log, always including the configured one, and recommend one.

    Each lambda goes through the log as :func:`bot_orch.evaluation.evaluate.evaluate_log` does: it learns from the first
    outcome of a decision and is scored with the last reward. So a judge that is gamed, and corrected now and then,
    speaks for a lambda that resists it; a judge that is gamed and never corrected cannot.

    Parameters
    ----------
    log, policy
        Where to read, and the policy; it must use alignment.
    lambdas
        Numbers, zero or more, and ``"auto"``.
    confidence
        Probability with which each value's interval, and all intervals of differences together, cover.
    min_effective, max_missing, audited, paths
        As in :func:`bot_orch.evaluation.evaluate.evaluate_log`.
    progress
        Called with (done, total, what) after each path.
    """
    rounds = collect(log)
    keep, logged = scores(rounds, max_missing=max_missing, audited=audited)
    configured = rounds.configured().lambda_
    wanted = _wanted(rounds, policy, lambdas, configured=configured)
    targets = _targets(rounds, policy, wanted, paths=paths, progress=progress)
    kept = {lambda_: target.propensities[:, keep] for lambda_, target in targets.items()}
    choice = choose(logged, kept, configured, confidence=confidence, min_effective=min_effective)
    name = policy if isinstance(policy, str) else policy.id
    learned = {lambda_: target.learned or 0 for lambda_, target in targets.items()}
    revised, missing, mean = len(rounds.revised), len(rounds.made) - len(logged), float(logged.reward.mean())
    return LambdaChoice(
        name,
        choice,
        len(logged),
        missing=missing,
        revised=revised,
        logged_mean=mean,
        learned=learned,
        confidence=confidence,
        logged_first=mean_of_first(keep, logged, learned[configured]),
    )


def choose(
    logged: LogSample,
    targets: Mapping[Lambda, Floats],
    configured: Lambda,
    *,
    confidence: float = 0.95,
    min_effective: float = 50.0,
) -> Recommendation:
    """Choose among candidates whose propensities are already known.

    Parameters
    ----------
    logged
        The decisions.
    targets
        The policy's probabilities under each lambda, as :func:`bot_orch.evaluation.offpolicy.evaluate` takes them;
        ``configured`` must be among them.
    configured
        The lambda in use.

    Examples
    --------
    >>> import numpy as np
    >>> n = 400
    >>> agent = np.arange(n) % 2
    >>> logged = LogSample(agent, 0.4 + 0.2 * agent, np.full((n, 2), 0.5), features=np.zeros((n, 0)))
    >>> targets = {0.0: np.tile([0.9, 0.1], (n, 1)), 1.0: np.tile([0.1, 0.9], (n, 1))}
    >>> choose(logged, targets, 0.0).recommended
    1.0
    """
    if configured not in targets:
        raise InvalidInputError("targets", f"lacks the configured lambda {configured}", "add it")
    values: dict[Lambda, Estimate] = {}
    refused: dict[Lambda, str] = {}
    for lambda_, target in targets.items():
        try:
            *_, values[lambda_] = evaluate(logged, target, confidence=confidence, min_effective=min_effective)
        except ThinSupportError as error:
            refused[lambda_] = str(error)
    others = [lambda_ for lambda_ in values if lambda_ != configured] if configured in values else []
    gains = {
        each: difference(logged, targets[each], targets[configured], confidence=confidence, among=len(others))
        for each in others
    }
    found = tuple(Candidate(each, values.get(each), gains.get(each), refused=refused.get(each, "")) for each in targets)
    better = [candidate for candidate in found if candidate.gain is not None and candidate.gain.low > 0.0]
    best = max(better, key=lambda each: each.value.value if each.value else 0.0, default=None)
    if best is None or best.gain is None:
        return Recommendation(configured, configured, _keep(configured, refused, len(gains)), candidates=found)
    return Recommendation(
        configured, best.lambda_, _change(best.lambda_, configured, best.gain, better=len(better)), candidates=found
    )


def _keep(configured: Lambda, refused: Mapping[Lambda, str], compared: int) -> str:
    stay = f"keep the configured lambda {_name(configured)}"
    if configured in refused:
        return f"{stay}: the log says too little about it, so nothing can be compared"
    if not compared:
        return f"{stay}: " + ("the log says too little about every other" if refused else "no other was asked for")
    return f"{stay}: no other is better beyond doubt"


def _change(best: Lambda, configured: Lambda, gain: Difference, *, better: int) -> str:
    what = "the only one better beyond doubt" if better == 1 else f"highest DR value of {better} better beyond doubt"
    by = f"{gain.value:.4f} [{gain.low:.4f}, {gain.high:.4f}]"
    return f"lambda {_name(best)}: {what}; better than the configured {_name(configured)} by {by}"


def _wanted(
    rounds: LoggedRounds, policy: Policy | str, lambdas: Iterable[Lambda], *, configured: Lambda
) -> list[Lambda]:
    """The distinct lambdas including the configured one; raises an error for an invalid one."""
    if not shadow(rounds, policy, 0.0).policy.uses_alignment:
        raise InvalidInputError("policy", f"{policy!r} does not use lambda", "name a policy that does, such as auto")
    wanted = list(dict.fromkeys(each if each == "auto" else float(each) for each in lambdas))
    return wanted if configured in wanted else [configured, *wanted]


def _targets(
    rounds: LoggedRounds, policy: Policy | str, lambdas: list[Lambda], *, paths: int, progress: Progress | None
) -> dict[Lambda, TargetPropensities]:
    targets: dict[Lambda, TargetPropensities] = {}

    def saying(index: int) -> Callable[[int], None]:
        total = len(lambdas) * paths
        return lambda gone: progress(index * paths + gone, total, "times through the log") if progress else None

    for index, lambda_ in enumerate(lambdas):
        targets[lambda_] = learning_target(rounds, policy, lambda_, paths=paths, progress=saying(index))
    return targets


def _name(lambda_: Lambda) -> str:
    return lambda_ if lambda_ == "auto" else f"{lambda_:g}"


def _line(cells: tuple[str, ...]) -> str:
    name, dr, interval, effective, learned, gain = cells
    return f"  {name:<8}{dr:>6}  {interval:<18}{effective:>11}{learned:>14}  {gain}".rstrip()

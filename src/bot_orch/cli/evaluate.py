"""``bot-orch evaluate``: off-policy evaluation of policies on a log."""

from __future__ import annotations

import argparse
import math
from itertools import product
from typing import TYPE_CHECKING

from bot_orch.cli._options import add_archive
from bot_orch.errors import InvalidInputError

if TYPE_CHECKING:
    from bot_orch.core.settings import Lambda
    from bot_orch.evaluation import Estimate, Evaluation, LoggedMean
    from bot_orch.evaluation.rounds import LoggedRounds

_SETTINGS = ("confidence", "min_effective", "max_missing", "audited", "paths")
DESCRIPTION = """\
Off-policy evaluation: estimate the mean reward of other policies from a log, by IPS, SNIPS and DR with confidence
intervals. If the log has too little support, the estimate is refused with the reason, and the exit status is 1.

A policy learns from the first outcome of a decision, as in production, and is scored with the last reward, so revised
rewards for a sample of decisions (sent as feedback again) show which policy resists a judge that is being gamed. With
--lambda, each policy is evaluated with each of these weights of alignment instead of the configured one."""
EXAMPLES = """\
examples:
  bot-orch evaluate bot-orch.sqlite --policy uniform ucb1
  bot-orch evaluate bot-orch.sqlite --policy logged        (means of what was logged; needs no propensities)
  bot-orch evaluate bot-orch.sqlite --policy agent:large-model --confidence 0.9
  bot-orch evaluate bot-orch.sqlite --policy auto --lambda 0 1 auto --audited"""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("log", metavar="LOG", help="the 'database' setting: a file, or postgresql://...")
    parser.add_argument(
        "--policy", nargs="+", required=True, metavar="P", help="a policy, agent:NAME, uniform, or logged"
    )
    parser.add_argument("--lambda", dest="lambdas", nargs="+", metavar="L", help="numbers, zero or more, and auto")
    parser.add_argument("--confidence", type=float, default=0.95, metavar="C", help="default: 0.95")
    parser.add_argument("--min-effective", type=float, default=50.0, metavar="N", help="minimal effective sample size")
    parser.add_argument("--max-missing", type=float, default=0.5, metavar="S", help="maximal share without reward")
    parser.add_argument(
        "--audited", action="store_true", help="score only decisions with a revised reward (audits chosen at random)"
    )
    parser.add_argument("--paths", type=int, default=4, metavar="N", help="replays of the log per policy (default: 4)")
    add_archive(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from bot_orch.evaluation import Refusal, evaluate, logged_means
    from bot_orch.evaluation.rounds import collect
    from bot_orch.log.stores.open import open_whole

    if arguments.lambdas is not None and "logged" in arguments.policy:
        raise InvalidInputError("--policy", "'logged' does not use lambda", "leave out --lambda")
    lambdas = [None] if arguments.lambdas is None else [_lambda(text) for text in arguments.lambdas]
    log = open_whole(arguments.log, arguments.archive)
    try:
        rounds = collect(log)
    finally:
        log.close()
    settings = {name: getattr(arguments, name) for name in _SETTINGS}
    refused = 0
    for target, lambda_ in product(arguments.policy, lambdas):
        if target == "logged":
            print(_logged(rounds, logged_means(rounds, confidence=arguments.confidence)))  # noqa: T201
            continue
        found = evaluate(rounds, target, lambda_=lambda_, **settings)
        name = _name(target, lambda_)
        print(f"{name}: refused; {found}" if isinstance(found, Refusal) else _evaluated(name, found))  # noqa: T201
        refused += isinstance(found, Refusal)
    return 1 if refused else 0


def _lambda(text: str) -> Lambda:
    if text == "auto":
        return "auto"
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < float("inf"):
        raise InvalidInputError("--lambda", f"holds {text!r}", "pass numbers, zero or more, and auto")
    return value


def _name(target: str, lambda_: Lambda | None) -> str:
    if lambda_ is None:
        return target
    return f"{target}, lambda {lambda_ if lambda_ == 'auto' else f'{lambda_:g}'}"


def _evaluated(name: str, found: Evaluation) -> str:
    known = f"{found.decisions} decisions, {found.missing} without reward, logged mean {found.logged_mean:.4f}"
    earlier = f"; {found.earlier} earlier ones were made among other agents" if found.earlier else ""
    learned = "" if found.learned is None else f", learned from {found.learned}"
    lines = [f"{name} ({known}{learned}{earlier})"]
    if found.learned is not None:
        first = f"  values are those of its first {found.learned} rounds"
        earned = f"; in its own first {found.learned} rounds the log earned {found.logged_first or 0.0:.4f}"
        lines.append(first if found.logged_first is None else first + earned)
    if found.unavailable:
        agent = found.target.removeprefix("agent:")
        lines.append(f"  in {found.unavailable} decisions {agent} could not be chosen: there an even choice counts")
    lines += [_line(f"  {e.method:<6}", e.value, e, f"effective n {e.effective_n:.0f}") for e in found.estimates]
    return "\n".join(lines)


def _logged(rounds: LoggedRounds, found: list[LoggedMean]) -> str:
    lines = [f"logged ({rounds.requests} decisions, {rounds.requests - found[0].decisions} without reward)"]
    width = max(len(each.agent) for each in found)
    lines += [_line(f"  {each.agent:<{width}}", each.mean, each, f"{each.decisions} decisions") for each in found]
    note = "the mean of an agent is that of the tasks it answered: agents compare only if tasks were given at random"
    return "\n".join([*lines, f"  note: {note}"])


def _line(name: str, value: float, interval: Estimate | LoggedMean, rest: str) -> str:
    """A value and its interval, with two significant digits of the interval's width, and four at least."""
    width = interval.high - interval.low
    places = max(4, 1 - math.floor(math.log10(width))) if width > 0.0 else 4
    value, low, high = (round(each, places) + 0.0 for each in (value, interval.low, interval.high))
    return f"{name}{value:>{places + 4}.{places}f}  [{low:.{places}f}, {high:.{places}f}]  {rest}"

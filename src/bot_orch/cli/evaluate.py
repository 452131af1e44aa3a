"""``bot-orch evaluate``: off-policy evaluation of policies and lambdas on a log."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bot_orch.cli._options import add_archive
from bot_orch.cli._terminal import ProgressBar
from bot_orch.errors import InvalidInputError
from bot_orch.strict import read_text

if TYPE_CHECKING:
    from bot_orch.core.settings import Lambda
    from bot_orch.evaluation.evaluate import Evaluation
    from bot_orch.log.log import Log

DESCRIPTION = """\
Off-policy evaluation: estimate the mean reward of other policies from a log, by IPS, SNIPS, DM and DR with confidence
intervals. If the log has too little support, the estimate is refused with the reason, and the exit status is 1.

With --lambdas, evaluate each policy with every lambda on the same log, compare them with the configured lambda row by
row, and recommend one: the configured lambda unless another is significantly better. A policy learns from the first
outcome of a decision, as in production, and is scored with the last reward, so revised rewards for a sample of
decisions (sent as feedback again) show which lambda resists a judge that is being gamed.

With --propose, print the change of a configuration file that the log speaks for, as a diff with its evidence, and exit
with status 1 if there is none: of a log of mode observe to serve, and with --lambdas the recommended one. The file is
not written: pass the diff to a reviewer, or to `patch`."""
EXAMPLES = """\
examples:
  bot-orch evaluate bot-orch.sqlite --policy uniform ucb1
  bot-orch evaluate bot-orch.sqlite --policy logged        (means of what was logged; needs no propensities)
  bot-orch evaluate bot-orch.sqlite --policy agent:large-model --confidence 0.9
  bot-orch evaluate bot-orch.sqlite --policy first agent:large-model       (rounds of several attempts)
  bot-orch evaluate bot-orch.sqlite --policy auto --lambdas 0 0.3 1 3 auto
  bot-orch evaluate bot-orch.sqlite --policy auto --lambdas 0 1 auto --audited
  bot-orch evaluate bot-orch.sqlite --propose bot-orch.yaml --loss 0.02"""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("log", metavar="LOG", help="the 'database' setting: a file, or postgresql://...")
    parser.add_argument(
        "--policy",
        nargs="+",
        default=[],
        metavar="P",
        help="a policy, agent:NAME, uniform, or logged; first: the first answer",
    )
    parser.add_argument("--propose", metavar="FILE", help="print the change of this configuration as a diff")
    parser.add_argument("--loss", type=float, default=0.02, metavar="L", help="reward a request may lose (0.02)")
    parser.add_argument("--lambdas", nargs="+", metavar="L", help="candidates: numbers, zero or more, and auto")
    parser.add_argument("--confidence", type=float, default=0.95, metavar="C", help="default: 0.95")
    parser.add_argument("--min-effective", type=float, default=50.0, metavar="N", help="minimal effective sample size")
    parser.add_argument("--max-missing", type=float, default=0.5, metavar="S", help="maximal share without reward")
    parser.add_argument(
        "--audited", action="store_true", help="score only decisions with a revised reward (audits chosen at random)"
    )
    parser.add_argument("--paths", type=int, default=4, metavar="N", help="replays of the log per policy (default: 4)")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    add_archive(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from bot_orch.evaluation.offpolicy import ThinSupportError
    from bot_orch.log.stores.open import open_whole

    _check(arguments)
    lambdas = None if arguments.lambdas is None else [_lambda(text) for text in arguments.lambdas]
    log = open_whole(arguments.log, arguments.archive)
    refused = 0
    try:
        if arguments.propose is not None:
            return _propose(log, lambdas, arguments)
        for target in arguments.policy:
            show = _policy(log, target, arguments) if lambdas is None else _lambdas(log, target, lambdas, arguments)
            try:
                text, complete = show()
            except ThinSupportError as error:
                text, complete = f"{target}: refused; {error}", False
            print(text)  # noqa: T201
            refused += not complete
    finally:
        log.close()
    return 1 if refused else 0


def _check(arguments: argparse.Namespace) -> None:
    if not 0.0 <= arguments.max_missing <= 1.0:
        raise InvalidInputError("--max-missing", f"is {arguments.max_missing}", "pass a share, 0 to 1")
    if not arguments.min_effective >= 1.0:
        raise InvalidInputError("--min-effective", f"is {arguments.min_effective}", "pass a number, 1 or more")
    if arguments.propose is None and not arguments.policy:
        raise InvalidInputError("--policy", "is missing", "name a policy, or pass --propose FILE")
    if arguments.propose is not None and (lambdas_alone := arguments.lambdas is None) == bool(arguments.policy):
        problem = "does not go with --propose" if lambdas_alone else "is missing"
        raise InvalidInputError("--policy", problem, "pass one policy with --lambdas, or none without")
    if not 0.0 <= arguments.loss <= 1.0:
        raise InvalidInputError("--loss", f"is {arguments.loss}", "pass units of reward, 0 to 1")
    if arguments.paths < 1:
        raise InvalidInputError("--paths", f"is {arguments.paths}", "pass a whole number, 1 or more")


def _lambda(text: str) -> Lambda:
    if text == "auto":
        return "auto"
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < float("inf"):
        raise InvalidInputError("--lambdas", f"holds {text!r}", "pass numbers, zero or more, and auto")
    return value


def _propose(log: Log, lambdas: list[Lambda] | None, arguments: argparse.Namespace) -> int:
    from bot_orch.evaluation.lambda_choice import pick_lambda
    from bot_orch.evaluation.offpolicy import ThinSupportError
    from bot_orch.evaluation.proposal import propose_lambda, propose_mode
    from bot_orch.evaluation.rounds import collect

    file = Path(arguments.propose)
    text = read_text(file)
    try:
        if lambdas is None:
            found = propose_mode(collect(log), loss_at_most=arguments.loss, confidence=arguments.confidence)
        else:
            bar = ProgressBar(quiet=arguments.quiet)
            found = propose_lambda(pick_lambda(log, arguments.policy[0], lambdas, progress=bar, **_settings(arguments)))
    except ThinSupportError as error:
        print(f"# refused; {error}")  # noqa: T201
        return 1
    print(found.diff(text, file.name), end="")  # noqa: T201
    return 0 if found.value is not None else 1


def _settings(arguments: argparse.Namespace) -> dict[str, Any]:
    names = ("confidence", "min_effective", "max_missing", "audited", "paths")
    return {name: getattr(arguments, name) for name in names}


def _policy(log: Log, target: str, arguments: argparse.Namespace) -> Callable[[], tuple[str, bool]]:
    from bot_orch.evaluation.evaluate import evaluate_log

    def show() -> tuple[str, bool]:
        if target == "logged":
            return _logged(log, arguments.confidence), True
        found = evaluate_log(log, target, **_settings(arguments))
        known = f"{found.decisions} decisions, {found.missing} without reward, logged mean {found.logged_mean:.4f}"
        earlier = f"; {found.earlier} earlier ones were made among other agents" if found.earlier else ""
        learned = "" if found.learned is None else f", learned from {found.learned}"
        lines = [f"{target} ({known}{learned}{earlier})", *_compared(found)]
        if found.unavailable:
            name = target.removeprefix("agent:")
            rest = "there an even choice counts" if len(found.estimates) > 1 else "these rounds are left out"
            lines.append(f"  in {found.unavailable} decisions {name} could not be chosen: {rest}")
        for e in found.estimates:
            interval = f"[{e.low:.4f}, {e.high:.4f}]"
            lines.append(f"  {e.method:<6}{e.value:>8.4f}  {interval}  effective n {e.effective_n:.0f}")
        return "\n".join(lines), True

    return show


def _compared(found: Evaluation) -> list[str]:
    """Lines that compare the learning policy's value with what the log earned in as many rounds."""
    if found.learned is None:
        return []
    mine = f"  values are those of its first {found.learned} rounds"
    if found.logged_first is None:
        return [mine]
    return [f"{mine}; in its own first {found.learned} rounds the log earned {found.logged_first:.4f}"]


def _logged(log: Log, confidence: float) -> str:
    from bot_orch.evaluation.evaluate import logged_means
    from bot_orch.evaluation.rounds import collect

    rounds = collect(log)
    found = logged_means(rounds, confidence=confidence)
    lines = [f"logged ({rounds.requests} decisions, {rounds.requests - found[0].decisions} without reward)"]
    width = max((len(each.agent) for each in found), default=0)
    for each in found:
        interval = f"[{each.low:.4f}, {each.high:.4f}]"
        lines.append(f"  {each.agent:<{width}}{each.mean:>8.4f}  {interval}  {each.decisions} decisions")
    note = "the mean of an agent is that of the tasks it answered: agents compare only if tasks were given at random"
    return "\n".join([*lines, f"  note: {note}"])


def _lambdas(
    log: Log, target: str, lambdas: list[Lambda], arguments: argparse.Namespace
) -> Callable[[], tuple[str, bool]]:
    from bot_orch.evaluation.lambda_choice import pick_lambda

    if target in ("uniform", "logged") or target.startswith("agent:"):
        raise InvalidInputError("--policy", f"{target!r} does not use lambda", "name a policy that does, such as auto")

    def show() -> tuple[str, bool]:
        bar = ProgressBar(quiet=arguments.quiet)
        found = pick_lambda(log, target, lambdas, progress=bar, **_settings(arguments))
        return found.text(), not any(each.refused for each in found.choice.candidates)

    return show

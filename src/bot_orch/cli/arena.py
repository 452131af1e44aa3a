"""``bot-orch arena``: benchmark policies on matrices of real outcomes."""

from __future__ import annotations

import argparse
import json
import math
import sys
import textwrap
from pathlib import Path
from typing import Literal

from bot_orch.cli._options import add_run_options, check_counts
from bot_orch.cli._terminal import ProgressBar
from bot_orch.errors import InvalidInputError, install_command

DESCRIPTION = """\
Replay matrices of real outcomes with bandit feedback: a policy sees a task's features, chooses an agent, and sees only
that agent's outcome. Prints a verdict: the best policy against what you do now (--baseline), reward and dollars with
intervals, and from which round on it pays. Writes DIR/verdict.json, DIR/arena.csv and DIR/index.html, a self-contained
page with the verdict, the plane of cost and quality, a league table, learning curves and a section per data set. An
interrupted run resumes where it stopped.

PATH is a table (.csv, .tsv, .parquet), an .npz file, or a folder of these. A table has
  a row per task and agent:   task,agent,reward,cost,seconds,text (trial, claim, feature_NAME)
  or a column per agent:      task,small,large,small_cost,large_cost,text
Rewards are in [0, 1] or true and false; an empty cell means that the agent cannot take the task. What was read as what,
and every column that was not read, is said on stderr. BOT_ORCH_DATA lists folders, separated as in the variable PATH:
a PATH that does not exist is looked for there, and without PATH they are read.
docs/evidence/arena.md has the names that columns may have and the arrays of .npz files."""
EXAMPLES = """\
examples:
  bot-orch arena examples/evaluations.csv --baseline large --out out/mine
  bot-orch arena evaluations.csv --policies auto --cost-weight 20 --out out/weighed
  bot-orch arena --list-policies
  bot-orch arena my-matrix.npz --policies linucb thompson-beta --seeds 10 --out out/mine
  bot-orch arena my-matrix.npz --policies bot thompson-beta --lambda 0 1 3 --out out/lambdas
  bot-orch arena my-matrix.npz --policies auto --latency-target 5 --cost-weight 10 --out out/prompt
  bot-orch arena my-matrix.npz --policies auto --budget 0.0005 --out out/budget
  bot-orch arena my-matrix.npz --policies auto vw-regcb --conditions delayed dead-agent --out out/conditions
  bot-orch arena data/ --policies ours peers --order both --jobs 2 --out out/arena"""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="matrices (default: the data folder)")
    parser.add_argument("--policies", nargs="+", metavar="NAME", help="names, or ours, peers, all (default: ours)")
    parser.add_argument(
        "--lambda",
        dest="lambdas",
        nargs="+",
        default=[],
        metavar="L",
        help="weights of alignment, or auto: each policy that uses alignment once with each, as bot@1",
    )
    parser.add_argument("--seeds", type=int, default=20, metavar="N", help="number of seeds (default: 20)")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds (default: every task once)")
    parser.add_argument("--at-most", type=int, metavar="N", help="no more rounds than this on larger sets")
    parser.add_argument(
        "--order", choices=("shuffled", "given", "both"), default="shuffled", help="order of tasks (default: shuffled)"
    )
    parser.add_argument(
        "--signal",
        choices=("log-uniform", "par10"),
        default="log-uniform",
        help="reward of a completion in runtime data sets: its survival function, or PAR10 (default: log-uniform)",
    )
    parser.add_argument(
        "--attempts",
        type=int,
        default=1,
        metavar="K",
        help="agents that a round may ask, on sets of runtimes or with signal, answer or check (default: 1)",
    )
    parser.add_argument(
        "--truthful-check",
        action="store_true",
        help="with --attempts: show of every answer whether its reward is at least one half, an upper bound",
    )
    parser.add_argument(
        "--warm-start",
        type=int,
        default=0,
        metavar="ROWS",
        help="with --attempts: also begin with all outcomes and answers of so many rows, which nobody plays",
    )
    parser.add_argument(
        "--patience",
        choices=("learned", "half"),
        default="learned",
        help="with --attempts: how long to wait for each but the last (default: learned)",
    )
    parser.add_argument("--latency-target", type=float, metavar="S", help="target latency in seconds, for auto and bot")
    parser.add_argument(
        "--cost-weight", type=float, default=0.0, metavar="W", help="reward units per dollar, for auto and bot"
    )
    parser.add_argument(
        "--price",
        action="append",
        default=[],
        metavar="AGENT=USD",
        help="on rounds that look at answers: dollars per answer of an agent, such as a person (repeatable)",
    )
    parser.add_argument("--budget", type=float, metavar="USD", help="mean dollars per task at most, for our policies")
    parser.add_argument(
        "--conditions",
        nargs="+",
        metavar="NAME",
        help="also play under delayed, censored, dead-agent, drifting, cold-start, poisoned, steering, false-rewards, "
        "restart, long, or all",
    )
    parser.add_argument(
        "--baseline",
        metavar="NAME",
        help="what you do now, an agent or a policy (default: the most expensive agent; without dollars, the best)",
    )
    parser.add_argument(
        "--floor",
        type=float,
        metavar="SHARE",
        help="floor of our policies (default: that of a router)",
    )
    parser.add_argument("--shares", action="store_true", help="add share:<agent> rows")
    add_run_options(parser, "out/arena")
    parser.add_argument("--list-policies", action="store_true", help="list the policies and exit")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from bot_orch.core.settings import Settings
    from bot_orch.lab.arena.conditions import find_conditions
    from bot_orch.lab.arena.registry import find_entrants, with_lambdas
    from bot_orch.lab.arena.run import ArenaPlan, can_draw, run_arena

    if arguments.list_policies:
        return _list()
    check_counts(arguments, ("seeds", "jobs", "rounds", "at_most", "attempts"))
    if arguments.truthful_check and arguments.attempts == 1:
        raise InvalidInputError("--truthful-check", "has no effect with one attempt", "pass --attempts 2 or more")
    if arguments.warm_start < 0:
        raise InvalidInputError("--warm-start", f"is {arguments.warm_start}", "pass how many rows, 0 or more")
    if arguments.latency_target is not None and not 0.0 < arguments.latency_target < math.inf:
        raise InvalidInputError("--latency-target", f"is {arguments.latency_target}", "pass seconds, more than 0")
    if not 0.0 <= arguments.cost_weight < math.inf:
        raise InvalidInputError("--cost-weight", f"is {arguments.cost_weight}", "pass a number, 0 or more")
    floor = Settings.floor if arguments.floor is None else arguments.floor
    if not 0.0 <= floor <= 1.0:
        raise InvalidInputError("--floor", f"is {floor}", "pass a share from 0 to 1")
    if arguments.budget is not None and not 0.0 < arguments.budget < math.inf:
        raise InvalidInputError("--budget", f"is {arguments.budget}", "pass dollars per task, more than 0")
    # first: reports a path among the policies
    entrants = with_lambdas(find_entrants(_names(arguments.policies)), [_lambda(word) for word in arguments.lambdas])
    paths = _found(arguments.paths)
    if arguments.attempts > 1 and _looks_at_answers(arguments, paths):
        return _run_answers(arguments, paths)
    if arguments.warm_start:
        remedy = "pass --attempts 2 or more, and sets with signal, answer or check"
        raise InvalidInputError("--warm-start", "has no effect on rounds that look at no answers", remedy)
    if arguments.price:
        raise InvalidInputError(
            "--price", "has no effect on these rounds", "pass --attempts 2 or more, or leave it out"
        )
    plan = ArenaPlan(
        paths,
        entrants,
        arguments.out,
        seeds=arguments.seeds,
        rounds=arguments.rounds,
        at_most=arguments.at_most,
        attempts=arguments.attempts,
        patience=arguments.patience,
        orders=("shuffled", "given") if arguments.order == "both" else (arguments.order,),
        signal=arguments.signal,
        jobs=arguments.jobs,
        shares=arguments.shares,
        force=arguments.force,
        command=_command(arguments),
        engine=arguments.engine,
        address=arguments.address,
        latency_target_s=arguments.latency_target,
        cost_weight=arguments.cost_weight,
        budget_usd=arguments.budget,
        conditions=find_conditions(_names(arguments.conditions)),
        baseline=arguments.baseline,
        floor=floor,
    )
    notes = plan.notes()
    if not can_draw():
        notes.append(f"no page: drawing needs {install_command('reproduce')}; the tables are written")
    for note in notes:
        _note(note)
    _report(arguments.out, run_arena(plan, ProgressBar(quiet=arguments.quiet)), floor)
    return 0


def _looks_at_answers(arguments: argparse.Namespace, paths: list[Path]) -> bool:
    """Whether rounds use answers; otherwise they only time out silent agents."""
    from bot_orch.lab.arena.answers import has_answers

    return arguments.truthful_check or any(has_answers(path) for path in paths)


def _run_answers(arguments: argparse.Namespace, paths: list[Path]) -> int:
    from bot_orch.core.settings import Settings
    from bot_orch.lab.arena.answers import run_answers

    given = {"--policies": arguments.policies, "--budget": arguments.budget, "--conditions": arguments.conditions}
    given |= {
        "--lambda": arguments.lambdas,
        "--latency-target": arguments.latency_target,
        "--baseline": arguments.baseline,
        "--floor": arguments.floor is not None,
    }
    for name, value in given.items():
        if value:
            raise InvalidInputError(name, "has no effect on rounds that look at answers", "leave it out")
    table = run_answers(
        paths,
        arguments.out,
        attempts=arguments.attempts,
        weight=arguments.cost_weight,
        seeds=arguments.seeds,
        rounds=arguments.rounds or arguments.at_most,
        truthful=arguments.truthful_check,
        prices=dict(map(_price, arguments.price)),
        evaluated=arguments.warm_start,
        tell=print,
    )
    print(f"floor:   {Settings.floor:g}\ntable:   {table}")  # noqa: T201
    return 0


def _lambda(given: str) -> float | Literal["auto"]:
    """A weight of alignment, or ``auto``."""
    if given == "auto":
        return "auto"
    try:
        value = float(given)
    except ValueError:
        value = math.nan
    if not 0.0 <= value < math.inf:
        raise InvalidInputError("--lambda", f"is {given!r}", "pass numbers, 0 or more, or auto")
    return value


def _price(given: str) -> tuple[str, float]:
    """The agent and the dollars of ``AGENT=USD``."""
    name, _, usd = given.rpartition("=")
    try:
        price = float(usd)
    except ValueError:
        price = math.nan
    if not name or not 0.0 <= price < math.inf:
        raise InvalidInputError("--price", f"is {given!r}", "pass an agent and dollars, such as person=0.02")
    return name, price


def _report(out: Path, page: Path, floor: float) -> None:
    """Print the verdicts, then where to find details."""
    verdicts = json.loads((out / "verdict.json").read_text())["verdicts"]
    if not verdicts:
        _note("no verdict: rounds of several attempts are not compared with what is done now; see the table")
    for each in verdicts:
        print(f"{textwrap.fill(each['text'], 110, subsequent_indent='  ')}\n")  # noqa: T201
    lines = [f"floor:   {floor:g}"]
    lines += [f"report:  {page}"] if page.suffix == ".html" else []
    print("\n".join([*lines, f"verdict: {out / 'verdict.json'}", f"table:   {out / 'arena.csv'}"]))  # noqa: T201


def _found(paths: list[Path]) -> list[Path]:
    """Every matrix under the paths; messages about reading them go to stderr."""
    from bot_orch.lab.environments.matrix.find import expand, load_matrix

    found = expand(paths, _note)
    for path in found:
        for note in load_matrix(path).notes:
            _note(f"{path.name}: {note}")
    return found


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)  # noqa: T201


def _names(words: list[str] | None) -> list[str]:
    """Split policy names at spaces and commas."""
    for word in words or []:
        if word.endswith((".npz", ".csv", ".tsv", ".parquet")) or Path(word).is_dir():
            raise InvalidInputError("--policies", f"takes {word!r} for a policy", "write PATH before --policies")
    return [name for word in words or [] for name in word.split(",") if name]


def _list() -> int:
    from bot_orch.lab.arena.registry import BASELINES, BUDGET_BASELINES, NOW_ABOUT, discover_entrants

    for name, entrant in discover_entrants().items():
        where = "peer" if entrant.kind == "peer" else "ours" if entrant.default else "also"
        print(f"{where:<7} {name:<20} {entrant.about}")  # noqa: T201
    for name, about in {**BASELINES, "now": NOW_ABOUT}.items():
        print(f"{'always':<7} {name:<20} {about}")  # noqa: T201
    for name, about in BUDGET_BASELINES.items():
        print(f"{'budget':<7} {name:<20} {about}")  # noqa: T201
    return 0


def _command(arguments: argparse.Namespace) -> str:
    words = ["bot-orch arena", *(path.name for path in arguments.paths)]
    words += ["--policies", *arguments.policies] if arguments.policies else []
    words += ["--lambda", *arguments.lambdas] if arguments.lambdas else []
    words += ["--seeds", str(arguments.seeds), "--order", arguments.order]
    words += ["--rounds", str(arguments.rounds)] if arguments.rounds else []
    words += ["--at-most", str(arguments.at_most)] if arguments.at_most else []
    words += ["--attempts", str(arguments.attempts), "--patience", arguments.patience] if arguments.attempts > 1 else []
    words += ["--latency-target", f"{arguments.latency_target:g}"] if arguments.latency_target else []
    words += ["--cost-weight", f"{arguments.cost_weight:g}"] if arguments.cost_weight else []
    words += ["--budget", f"{arguments.budget:g}"] if arguments.budget else []
    words += ["--conditions", *arguments.conditions] if arguments.conditions else []
    words += ["--baseline", arguments.baseline] if arguments.baseline else []
    words += [] if arguments.floor is None else ["--floor", f"{arguments.floor:g}"]
    words += ["--signal", arguments.signal] if arguments.signal != "log-uniform" else []
    return " ".join(words)

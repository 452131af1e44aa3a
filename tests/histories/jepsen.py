"""Histories under faults, as many as wanted, each drawn from a seed: `make jepsen`.

Every line is a history: its seed, how many operations were acknowledged, seconds without a write, the longest time from
the end of a fault to the next write of that replica, revisions of the configuration file, how often the router got
another owner, the faults, and what the checker found wrong, with the command that plays it again. The exit status
is 1 if it found something, or if writes were taken in fewer than 99 % of all seconds.
"""

import argparse
import collections
import multiprocessing
import signal
import sys
import time
from pathlib import Path

for _name in ("faults", "postgres", "service", "histories"):
    sys.path.insert(0, str(Path(__file__).parents[1] / _name))

from checking import Outage, violations  # noqa: E402
from playing import Play, Setting  # noqa: E402

OUT = Path("out/histories")
NEED = 0.99
_own = {}


def own():
    """The server of PostgreSQL and the forker of this process."""
    if not _own:
        from pg_running import server
        from replicas import Forker

        _own["pg"], _own["forker"] = server(), Forker()
    return _own["pg"], _own["forker"]


def one(seed, seconds, keep):
    """Play and check one history; (history, what is wrong, its line)."""
    play = Play(Setting.of(seed, seconds), *own())
    try:
        history = play.run()
    except Exception as error:
        history = play.history
        history.problems.append(f"broken off: {error!r}")
    wrong = violations(history)
    if wrong or keep:
        history.dump(OUT / f"{seed}.json")
        (OUT / f"{seed}.log").write_text(getattr(play, "logs", ""))
    return history, wrong, line(history, wrong, seconds)


def line(history, wrong, seconds):
    """One line about a history, and one for each thing that is wrong."""
    acked = sum(op.outcome == "ok" for op in history.ops)
    unknown = sum(op.outcome == "unknown" for op in history.ops)
    outage = Outage().add(history)
    faults = " ".join(fault.kind if fault.replica < 0 else f"{fault.kind}@{fault.replica}" for fault in history.faults)
    longest = max(outage.backs_s, default=0.0)
    text = (
        f"seed {history.seed} {acked} acknowledged, {unknown} unknown, "
        f"{outage.silent}/{outage.seconds} s silent, back {longest:.1f} s, revisions {len(history.versions)}, "
        f"moves {moves(history)}: {faults} {'WRONG' if wrong else 'ok'}"
    )
    again = f"python tests/histories/jepsen.py --only {history.seed} --seconds {seconds:g}"
    return "\n".join([text, *(f"    {each}" for each in wrong[:10]), *([f"    again: {again}"] if wrong else [])])


def moves(history):
    """How often the router got an owner that was not its first."""
    return max(0, history.stream.owners - 1)


def report(found, begun):
    """The summary; whether all is well."""
    passed = sum(not wrong for _, wrong, _ in found)
    print(f"\nhistories {len(found)}, passed {passed}, {(time.monotonic() - begun) / 60:.1f} minutes")
    outage = Outage()
    for history, *_ in found:
        outage.add(history)
    told([history for history, *_ in found], outage)
    return passed == len(found) and outage.share >= NEED


def told(histories, outage):
    """What happened in some histories, in numbers."""
    acked = sum(op.outcome == "ok" for history in histories for op in history.ops)
    faults = collections.Counter(fault.kind for history in histories for fault in history.faults)
    kinds = ", ".join(f"{kind} {times}" for kind, times in sorted(faults.items()))
    shares = [Outage().add(history).share for history in histories]
    backs = sorted(outage.backs_s) or [0.0]
    print(f"  acknowledged operations {acked}")
    print(f"  faults {faults.total()}: {kinds}")
    revisions = sum(len(history.versions) for history in histories)
    print(f"  revisions of the configuration {revisions}; moves {sum(map(moves, histories))}")
    print(f"  seconds with a write: {100 * outage.share:.2f} % of {outage.seconds} (need {100 * NEED:g} %), ", end="")
    print(f"mean of histories {100 * sum(shares) / len(shares):.2f} %, worst {100 * min(shares):.1f} %")
    print(f"  back after a fault: median {backs[len(backs) // 2]:.2f} s, longest {backs[-1]:.2f} s of {len(backs)}")


def end():
    """Stop what this process has started."""
    if _own:
        from pg_running import shut

        _own["forker"].close()
        shut()
        _own.clear()


def work(queue, results, seconds, keep):
    """Play the seeds of a queue, one after the other."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and stop the server
    try:
        while (seed := queue.get()) is not None:
            results.put(one(seed, seconds, keep))
    finally:
        end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, epilog="example: python tests/histories/jepsen.py --only 7")
    parser.add_argument("--histories", type=int, default=200)
    parser.add_argument("--first", type=int, default=1, metavar="SEED")
    parser.add_argument("--only", type=int, metavar="SEED", help="play one again")
    parser.add_argument("--seconds", type=float, default=12.0, help="of faults, in each history")
    parser.add_argument("--jobs", type=int, default=2, help="at a time")
    parser.add_argument("--keep", action="store_true", help=f"write every history to {OUT}, not only those that fail")
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.histories)
    if arguments.only is not None:
        seeds = (arguments.only,)
    begun, found = time.monotonic(), []
    context = multiprocessing.get_context("spawn")
    queue, results = context.Queue(), context.Queue()
    workers = [
        context.Process(target=work, args=(queue, results, arguments.seconds, arguments.keep), daemon=True)
        for _ in range(min(arguments.jobs, len(seeds)))
    ]
    for seed in (*seeds, *(None for _ in workers)):
        queue.put(seed)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and end the workers, which are daemons
    for worker in workers:
        worker.start()
    for _ in seeds:
        found.append(results.get())
        print(found[-1][2], flush=True)
    for worker in workers:
        worker.join()
    raise SystemExit(0 if report(found, begun) else 1)


if __name__ == "__main__":
    main()

"""Histories under faults, as many as wanted, each drawn from a seed: `make jepsen`.

Every line is a history: its seed, how many operations were acknowledged, seconds without a write, the longest time from
the end of a fault to the next write of that replica, the faults, and what the checker found wrong. The exit status is 1
if it found something, or if writes were taken in fewer than 99 % of all seconds.
"""

import argparse
import collections
import multiprocessing
import signal
import sys
import time
from pathlib import Path

for _name in ("postgres", "service", "histories"):
    sys.path.insert(0, str(Path(__file__).parents[1] / _name))

from checking import Outage, violations  # noqa: E402
from playing import MODES, Play, Setting  # noqa: E402

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


def one(seed, seconds, mode, keep):
    """Play and check one history; (history, what is wrong, its line)."""
    play = Play(Setting.of(seed, seconds, mode), *own())
    try:
        history = play.run()
    except Exception as error:
        history = play.history
        history.problems.append(f"broken off: {error!r}")
    wrong = violations(history)
    if wrong or keep:
        history.dump(OUT / f"{seed}.json")
        (OUT / f"{seed}.log").write_text(getattr(play, "logs", ""))
    return history, wrong, line(history, wrong)


def line(history, wrong):
    """One line about a history, and one for each thing that is wrong."""
    acked = sum(op.outcome == "ok" for op in history.ops)
    unknown = sum(op.outcome == "unknown" for op in history.ops)
    outage = Outage().add(history)
    faults = " ".join(fault.kind if fault.replica < 0 else f"{fault.kind}@{fault.replica}" for fault in history.faults)
    longest = max(outage.backs_s, default=0.0)
    text = (
        f"seed {history.seed} {history.mode} {acked} acknowledged, {unknown} unknown, "
        f"{outage.silent}/{outage.seconds} s silent, back {longest:.1f} s: {faults} "
        f"{'WRONG' if wrong else 'ok'}"
    )
    return "\n".join([text, *(f"    {each}" for each in wrong[:10])])


def report(found, begun):
    """The summary; whether all is well."""
    outage, faults, wrong = Outage(), collections.Counter(), 0
    for history, problems, _ in found:
        outage.add(history)
        faults.update(fault.kind for fault in history.faults)
        wrong += bool(problems)
    backs = sorted(outage.backs_s) or [0.0]
    acked = sum(op.outcome == "ok" for history, *_ in found for op in history.ops)
    print(f"\nhistories {len(found)}, with something wrong {wrong}, {(time.monotonic() - begun) / 60:.1f} minutes")
    print(f"acknowledged operations {acked}, faults {faults.total()}")
    for kind, times in sorted(faults.items()):
        print(f"  {kind}: {times}")
    print(f"seconds with a write {100 * outage.share:.2f} % of {outage.seconds} (need {100 * NEED:g} %)")
    print(f"back after a fault: median {backs[len(backs) // 2]:.2f} s, longest {backs[-1]:.2f} s of {len(backs)}")
    return wrong == 0 and outage.share >= NEED


def end():
    """Stop what this process has started."""
    if _own:
        from pg_running import shut

        _own["forker"].close()
        shut()
        _own.clear()


def work(queue, results, seconds, mode, keep):
    """Play the seeds of a queue, one after the other."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and stop the server
    try:
        while (seed := queue.get()) is not None:
            results.put(one(seed, seconds, mode, keep))
    finally:
        end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, epilog="example: python tests/histories/jepsen.py --only 7")
    parser.add_argument("--histories", type=int, default=200)
    parser.add_argument("--first", type=int, default=1, metavar="SEED")
    parser.add_argument("--only", type=int, metavar="SEED", help="play one again")
    parser.add_argument("--seconds", type=float, default=15.0, help="of faults, in each history")
    parser.add_argument("--mode", choices=MODES, help="of all histories (default: every second one has owners)")
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
        context.Process(
            target=work, args=(queue, results, arguments.seconds, arguments.mode, arguments.keep), daemon=True
        )
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

"""What a transport distance costs, against SciPy and POT in the same run.

    python benchmarks/transport.py [--quick] [--markdown] [--facts]

Rows are medians in microseconds. Bars say what is promised; the last column says whether this run kept it. ``--facts``
prints the numbers of docs/concepts/transport.md instead (no peers, no clock).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from _calibration import coverage, coverage_grid, drift_study
from _lockin import lockin_shares

from bot_orch import transport as tr
from bot_orch.arrays import Arrays, Floats
from bot_orch.rng import derive_keys, generator

LAMBDA, WINDOW, CELLS = 5.0, 256, 64


@dataclass
class Report:
    """Rows and bars of one run."""

    quick: bool
    rows: list[tuple[str, float, float]] = field(default_factory=list)
    bars: list[tuple[str, float, float]] = field(default_factory=list)

    def time(self, run: Callable[[], object], number: int) -> float:
        """Median microseconds per call."""
        return self.times([(run, number)])[0]

    def times(self, runs: Sequence[tuple[Callable[[], object], int]]) -> list[float]:
        """Median microseconds per call of several functions, taken in turns so that a busy machine hits all alike."""
        found: list[list[float]] = [[] for _ in runs]
        for run, _ in runs:
            run()
        for _ in range(3 if self.quick else 7):
            for taken, (run, number) in zip(found, runs, strict=True):
                repeat = max(1, number // (5 if self.quick else 1))
                start = time.perf_counter()
                for _ in range(repeat):
                    run()
                taken.append((time.perf_counter() - start) / repeat)
        return [statistics.median(taken) * 1e6 for taken in found]

    def compare(self, name: str, ours: float, peer: float, need: float | None) -> None:
        """Note a ratio, and the bar it has to clear."""
        self.rows.append((name, ours, peer))
        if need is not None:
            self.bars.append((name, peer / ours, need))


def our_round(
    bank: tr.ProfileBank, state: Arrays, reference: Floats, draws: Floats, outcomes: Floats
) -> Callable[[], None]:
    """M distances, softmax, draw, update of the chosen agent."""
    geometry, t = bank.geometry, 0

    def run() -> None:
        nonlocal t
        t = (t + 1) % len(draws)
        w = geometry.distances(state["embedding"], reference)
        w *= -LAMBDA
        w -= w[w.argmax()]
        edges = np.exp(w, out=w).cumsum()
        bank.update(state, int(edges.searchsorted(draws[t] * edges[-1])), outcomes[t])

    return run


def peer_round(
    pair: Callable[[Floats, Floats], float], windows: Floats, nu: Floats, draws: Floats, outcomes: Floats
) -> Callable[[], None]:
    """The same round with one library call per agent."""
    seen = np.zeros(len(windows), dtype=int)
    t = 0

    def run() -> None:
        nonlocal t
        t = (t + 1) % len(draws)
        w = -LAMBDA * np.array([pair(window, nu) for window in windows])
        edges = np.exp(w - w.max()).cumsum()
        agent = int(edges.searchsorted(draws[t] * edges[-1]))
        windows[agent, seen[agent] % windows.shape[1]] = outcomes[t]
        seen[agent] += 1

    return run


def filled(bank: tr.ProfileBank, n_agents: int, outcomes: Floats) -> Arrays:
    """A state whose windows are full: ``outcomes`` (n, M, ...)."""
    state = bank.start(n_agents)
    for row in outcomes:
        for agent in range(n_agents):
            bank.update(state, agent, row[agent])
    return state


def rounds_1d(report: Report) -> None:
    """Full rounds on one-dimensional outcomes."""
    import ot
    from scipy.stats import wasserstein_distance

    bars = {6: (10, 20), 100: (130, 250)}
    rng = generator("benchmark 1d")
    draws, outcomes = rng.random(1000), rng.normal(size=1000)
    nu = rng.normal(size=WINDOW)
    for m, (need_scipy, need_pot) in bars.items():
        start = rng.normal(size=(WINDOW, m))
        bank = tr.ProfileBank(tr.Scalars(cells=CELLS), tr.Memory.window(WINDOW))
        reference = bank.geometry.embed(tr.Samples(nu))
        run = our_round(bank, filled(bank, m, start), reference, draws, outcomes)
        pairs = (wasserstein_distance, ot.wasserstein_1d)
        peers = [(peer_round(pair, start.T.copy(), nu, draws, outcomes), 600 // m) for pair in pairs]
        ours, scipy, pot = report.times([(run, 2000), *peers])
        report.compare(f"round 1-D M={m} / SciPy", ours, scipy, need_scipy)
        report.compare(f"round 1-D M={m} / POT", ours, pot, need_pot)


def labels(report: Report) -> None:
    """All M distances between label distributions."""
    import ot

    k, m = 10, 100
    rng = generator("benchmark labels")
    p, q = rng.dirichlet(np.ones(k), m), rng.dirichlet(np.ones(k))
    cost = 1.0 - np.eye(k)
    geometry = tr.ZeroOneLabels(k)
    bank, reference = p @ geometry.atoms, geometry.embed(tr.Labels(q))
    run = partial(geometry.distances, bank, reference)
    ours, peer = report.times([(run, 5000), (lambda: [ot.emd2(row, q, cost) for row in p], 10)])
    report.compare(f"labels K={k} M={m} / POT emd2", ours, peer, 1000)


def rounds_cloud(report: Report) -> None:
    """Full rounds on outcomes in R^64."""
    import ot

    d, n, m = 64, 128, 100
    rng = generator("benchmark cloud")
    draws, outcomes = rng.random(200), rng.normal(size=(200, d))
    start, nu = rng.normal(size=(n, m, d)), rng.normal(size=(n, d))
    geometry = tr.Sliced(dimension=d)

    def pair(x: Floats, y: Floats) -> float:
        return float(ot.sliced_wasserstein_distance(x, y, projections=geometry.frame))

    bank = tr.ProfileBank(geometry, tr.Memory.window(n))
    run = our_round(bank, filled(bank, m, start), geometry.embed(tr.Cloud(nu)), draws, outcomes)
    peer = peer_round(pair, np.swapaxes(start, 0, 1).copy(), nu, draws, outcomes)
    ours, theirs = report.times([(run, 300), (peer, 1)])
    report.compare(f"round R^{d} M={m} / POT sliced", ours, theirs, 500)


def batch(report: Report) -> None:
    """One distance within a batch of seeds x agents."""
    from scipy.stats import wasserstein_distance

    seeds, m = 100, 6
    rng = generator("benchmark batch")
    geometry = tr.Scalars(cells=CELLS)
    bank = geometry.embed_outcomes(rng.normal(size=(seeds, m, CELLS)))
    x, y = rng.normal(size=(2, CELLS))
    reference = geometry.embed(tr.Samples(y))
    run = partial(geometry.distances, bank, reference)
    ours, peer = report.times([(run, 1000), (partial(wasserstein_distance, x, y), 1000)])
    report.compare(f"one of {seeds}x{m} / SciPy", ours / (seeds * m), peer, 140)


def without_peers(report: Report) -> list[tuple[str, float]]:
    """What else a round may do, in microseconds."""
    rng = generator("benchmark extras")
    found = []
    for m in (6, 100):
        bank = tr.ProfileBank(tr.Scores(), tr.Memory.window(WINDOW))
        state = filled(bank, m, rng.random((WINDOW, m)))
        reference = bank.geometry.embed(tr.Samples(rng.random(WINDOW)))
        took = report.time(partial(bank.distances, state, reference), 300)
        found.append((f"confidence distances, scores M={m}", took))
    monitor = tr.DriftMonitor(tr.Scores())
    pooled = rng.random(monitor.recent + monitor.older)
    found.append(("one drift test, scores", report.time(partial(monitor.compare, pooled), 20)))
    return found


def bandwidth(report: Report) -> list[str]:
    """How near the distances come to reading the bank once."""
    rows = 20_000 if report.quick else 100_000
    bank = generator("benchmark bandwidth").random((rows, CELLS))
    geometry, reference = tr.Scalars(cells=CELLS), bank[0].copy()
    flat, gigabytes = bank.ravel(), bank.nbytes / 1e9
    limit = gigabytes / (report.time(partial(flat.dot, flat), 5) * 1e-6)
    reached = gigabytes / (report.time(partial(geometry.distances, bank, reference), 5) * 1e-6)
    return [
        f"read bandwidth over {bank.nbytes / 1e6:.0f} MB: {limit:.1f} GB/s",
        f"share of it reached by distances: {reached / limit:.2f}",
    ]


def facts() -> None:
    """The numbers of the documentation; everything is keyed, so they come out the same everywhere."""
    from scipy.special import ndtri

    levels = (np.arange(200_000) + 0.5) / 200_000
    for name, x in (("normal", ndtri(levels)), ("lognormal", np.exp(ndtri(levels)))):
        for order in (1, 2):
            exact = float(np.mean(np.abs(0.5 * x) ** order) ** (1.0 / order))
            found = tr.distance(tr.Scalars(order=order), tr.Samples(x), tr.Samples(1.5 * x))
            print(f"grid loss, 64 cells, {name} against 1.5 times itself, W{order}: {1 - found / exact:.2%}")
    worst: dict[str, tuple[float, str]] = {}
    for cell in coverage_grid():
        kind, held = cell.geometry.name, (coverage(cell), f"{cell.name}, n = {cell.n}")
        worst[kind] = min(worst.get(kind, held), held)
    for kind, (share, name) in worst.items():
        print(f"least coverage at nominal 0.90, {kind}: {share:.3f} ({name})")
    keys = derive_keys(["facts"], range(100))
    for lambda_ in (20.0, 50.0, 100.0):
        shares = {
            which: lockin_shares(lambda_, 1000, keys, which).max(axis=1).mean()
            for which in ("plug_in", "debiased", "lower")
        }
        print(f"lock-in, lambda {lambda_:.0f}: largest share " + ", ".join(f"{k} {v:.3f}" for k, v in shares.items()))
    for gap in (0.1, 0.2, 0.3):
        shares = {
            which: lockin_shares(100.0, 1000, keys, which, gap=gap)[:, 0].mean() for which in ("plug_in", "lower")
        }
        print(f"an agent worse by {gap}: its share " + ", ".join(f"{k} {v:.3f}" for k, v in shares.items()))
    drift_facts()


def drift_facts() -> None:
    """False alarms and delays of the drift monitor."""
    rng = generator("facts drift")
    monitor = tr.DriftMonitor(tr.Scores())
    calm = drift_study(monitor, rng.beta(2, 5, (200, 1024)), change=1024)
    print(
        f"drift, nothing changes: {calm.false_alarms:.4f} alarms per test in {calm.tests} tests, stated {monitor.alpha}"
    )
    for shift in (0.05, 0.1, 0.2):
        streams = np.clip(rng.beta(2, 5, (100, 768)) + shift * (np.arange(768) >= 256), 0.0, 1.0)
        study = drift_study(monitor, streams, change=256)
        found = f"found in {study.detected:.2f} of streams within 512 outcomes, median delay {study.delay:.0f}"
        print(f"drift, scores move by {shift}: {found}")


def show(report: Report, extras: list[tuple[str, float]], lines: list[str], markdown: bool) -> None:
    """Rows, then the limit, then one line per bar."""
    if markdown:
        print("| what | ours, us | peer, us | ratio | bar |\n|---|---|---|---|---|")
        needs = {name: need for name, _, need in report.bars}
        for name, ours, peer in report.rows:
            print(f"| {name} | {ours:.3g} | {peer:.4g} | {peer / ours:.0f} | {needs.get(name, '')} |")
        for name, ours in extras:
            print(f"| {name} | {ours:.3g} | | | |")
        print("\n" + "; ".join(lines) + ".")
        return
    print("name, ours, peer, ratio")
    for name, ours, peer in report.rows:
        print(f"{name}, {ours:.3f}, {peer:.1f}, {peer / ours:.1f}")
    for name, ours in extras:
        print(f"{name}, {ours:.1f}, , ")
    print("\n".join(lines))
    for name, ratio, need in report.bars:
        print(f"bar {name.replace(' ', '_')} ratio={ratio:.1f} need={need} {'ok' if ratio >= need else 'short'}")


def main() -> None:
    """Run everything once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    parser.add_argument("--markdown", action="store_true", help="print a table for the documentation")
    parser.add_argument("--facts", action="store_true", help="print the numbers of docs/concepts/transport.md")
    options = parser.parse_args()
    if options.facts:
        facts()
        return
    report = Report(options.quick)
    for part in (rounds_1d, labels, rounds_cloud, batch):
        part(report)
    show(report, without_peers(report), bandwidth(report), options.markdown)


if __name__ == "__main__":
    main()

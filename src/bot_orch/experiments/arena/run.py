"""Run the arena into a folder: results append to a file, an interrupted run goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bot_orch._version import __version__
from bot_orch.environments.matrix_find import dataset_name, load_matrix
from bot_orch.environments.replay import Order, Replay, Setup
from bot_orch.errors import BotOrchError, ResultsExistError
from bot_orch.experiments.arena.league import Results, csv_text
from bot_orch.experiments.arena.metrics import chosen, score, yardstick
from bot_orch.experiments.arena.players import play
from bot_orch.experiments.arena.registry import YARDSTICKS, discover_entrants
from bot_orch.experiments.runner import Progress
from bot_orch.files import write_atomically
from bot_orch.rng import derive_keys

__all__ = ["DEFAULT_ROUNDS", "ArenaPlan", "run_arena", "run_one"]

DEFAULT_ROUNDS = 2000
_LOG, _SETTINGS, _TABLE = "results.jsonl", "settings.json", "arena.csv"


@dataclass(frozen=True, slots=True)
class ArenaPlan:
    """What to replay, with whom, how long, where to.

    ``rounds`` None means every task once, at most 2000.
    """

    paths: Sequence[Path]
    policies: Sequence[str]
    out: Path
    seeds: int = 20
    rounds: int | None = None
    orders: Sequence[Order] = ("shuffled",)
    components: int = 10
    signal: str = "log-uniform"
    jobs: int = 1
    shares: bool = False
    force: bool = False
    command: str = ""

    def settings(self) -> dict[str, Any]:
        """What determines the results of a unit, written beside them. Names of policies may be added later."""
        return {
            "datasets": {dataset_name(path): _fingerprint(path) for path in self.paths},
            "seeds": self.seeds,
            "rounds": self.rounds,
            "components": self.components,
            "signal": self.signal,
            "version": __version__,
        }

    def units(self) -> list[dict[str, Any]]:
        """Every (data set, order, policy), yardsticks first."""
        common = {
            "seeds": self.seeds,
            "rounds": self.rounds,
            "components": self.components,
            "signal": self.signal,
        }
        return [
            {"path": str(path), "dataset": dataset_name(path), "order": order, "policy": policy, **common}
            for path in self.paths
            for order in self.orders
            for policy in (*YARDSTICKS, *self.policies)
        ]


def run_one(unit: dict[str, Any]) -> dict[str, Any]:
    """Replay one policy over one data set in one order; returns metrics over seeds, shares and the curve."""
    matrix = load_matrix(Path(unit["path"]))
    rounds = unit["rounds"] or min(len(matrix.playable), DEFAULT_ROUNDS)
    replay = Replay(
        matrix,
        unit["order"],
        rounds,
        range(unit["seeds"]),
        components=unit["components"],
        signal=unit["signal"],
    )
    name = unit["policy"]
    if name in YARDSTICKS:
        return {**score(replay, yardstick(replay, name)), "kind": "yardstick"}
    entrant = discover_entrants()[name]
    trace = play(entrant.build(replay.setup), replay)
    return {**score(replay, chosen(replay, trace.agent)), "kind": entrant.kind}


def run_arena(plan: ArenaPlan, progress: Progress) -> Path:
    """Run what is missing, write the page and then ``arena.csv``; returns the page's path."""
    from bot_orch.experiments.arena.page import write_page  # draws figures: matplotlib, only here

    _preflight(plan)
    _prepare(plan)
    results = _run_missing(plan, progress)
    page = write_page(plan.out, results, plan.command, progress)
    # last: its presence means the run is complete
    write_atomically(plan.out / _TABLE, csv_text(results, shares=plan.shares).encode())
    return page


def _preflight(plan: ArenaPlan) -> None:
    """Fail before the first unit: unreadable files, missing libraries."""
    for path in plan.paths:
        load_matrix(path)
    setup = Setup(2, 1, 1, derive_keys(["preflight"], [0]))
    entrants = discover_entrants()
    for name in plan.policies:
        entrants[name].build(setup)


def _prepare(plan: ArenaPlan) -> None:
    settings, table = plan.out / _SETTINGS, plan.out / _TABLE
    if plan.force:
        for name in (_LOG, _SETTINGS, _TABLE):
            (plan.out / name).unlink(missing_ok=True)
    if table.exists():
        raise ResultsExistError(f"{table} exists; pass --force to overwrite it, or another --out")
    wanted = json.loads(json.dumps(plan.settings()))
    if settings.exists() and json.loads(settings.read_text()) != wanted:
        raise ResultsExistError(
            f"{plan.out} holds an unfinished run with other settings; pass --force to discard it, or another --out"
        )
    write_atomically(settings, json.dumps(wanted, indent=1).encode())


def _run_missing(plan: ArenaPlan, progress: Progress) -> Results:
    log, units = plan.out / _LOG, plan.units()
    done = _read_log(log)
    missing = [unit for unit in units if _key(unit) not in done]
    finished = len(units) - len(missing)
    progress(finished, len(units), "resuming" if finished else "starting")
    with log.open("a") as file:
        for unit, payload in _run(missing, plan.jobs):
            file.write(json.dumps({"unit": _key(unit), "payload": payload}) + "\n")
            file.flush()
            done[_key(unit)] = json.loads(json.dumps(payload))
            finished += 1
            progress(finished, len(units), " ".join(_key(unit)))
    return {_key(unit): done[_key(unit)] for unit in units}


def _run(units: Sequence[dict[str, Any]], processes: int) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    if processes <= 1 or len(units) <= 1:
        for unit in units:
            yield unit, run_one(unit)
        return
    context = multiprocessing.get_context("spawn")  # fork is unsafe once threads run
    with ProcessPoolExecutor(max_workers=processes, mp_context=context) as pool:
        futures = {pool.submit(_guarded, unit): unit for unit in units}
        try:
            for future in as_completed(futures):
                payload = future.result()
                if "error" in payload:
                    raise BotOrchError(payload["error"])
                yield futures[future], payload
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _guarded(unit: dict[str, Any]) -> dict[str, Any]:
    """``run_one`` in a worker; our errors come back as text, since their classes do not travel."""
    try:
        return run_one(unit)
    except BotOrchError as error:
        return {"error": str(error)}


def _read_log(log: Path) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Finished units; a last line cut off while being written is dropped and its unit runs again."""
    if not log.exists():
        return {}
    text = log.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        log.write_text(whole)
    entries = [json.loads(line) for line in whole.splitlines()]
    return {tuple(entry["unit"]): entry["payload"] for entry in entries}


def _key(unit: dict[str, Any]) -> tuple[str, str, str]:
    return unit["dataset"], unit["order"], unit["policy"]


def _fingerprint(path: Path) -> str:
    digest = hashlib.blake2b(digest_size=8)
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    for file in files:
        if file.is_file():
            digest.update(file.read_bytes())
    return digest.hexdigest()

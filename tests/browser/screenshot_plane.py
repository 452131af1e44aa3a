"""Takes docs/img/dashboard-plane.png: python tests/browser/screenshot_plane.py [folder]

Three kinds of tasks, three agents that differ in price and in what they are good at, a budget and a limited share. The
dark picture and the one of a phone go to the folder, if one is given.
"""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "service"))

from browser_running import ARGUMENTS, chromium_path
from service_running import Running

from bot_orch.clock import ManualClock
from bot_orch.service.config import parse_config

OUT = Path(__file__).parents[2] / "docs" / "img"
TASKS = 700
USD = {"small": 0.002, "middle": 0.006, "large": 0.02}
GOOD = {"order": (0.9, 0.9, 0.92), "refund": (0.3, 0.85, 0.9), "contract": (0.1, 0.4, 0.9)}
NOON = 1_767_268_800


def main():
    with TemporaryDirectory() as folder:
        clock = ManualClock(NOON * 1_000_000)
        running = serve(f"{folder}/log.sqlite", clock)
        try:
            work(running, clock)
            with sync_playwright() as playwright:
                shoot(playwright.chromium.launch(executable_path=chromium_path(), args=ARGUMENTS), running)
        finally:
            running.stop()


def serve(database, clock):
    document = {
        "version": 1,
        "database": database,
        "listen": {"host": "127.0.0.1", "port": 0},
        "router": {
            "policy": "auto",
            "n_features": 3,
            "floor": 0.05,
            "seed": 7,
            "subject_to": {"usd_per_task": 0.007, "shares": {"large": 0.25}},
        },
        "agents": [
            {"id": name, "kind": "simulated", "price": {"per_call_usd": usd}, "params": {"median_s": 0.0}}
            for name, usd in USD.items()
        ],
    }
    return Running(parse_config(json.dumps(document)), clock=clock)


def work(running, clock):
    rng, kinds = np.random.default_rng(0), list(GOOD)
    for number in range(TASKS):
        clock.advance(10.0)
        index = int(rng.integers(3))
        features = [float(index == k) for k in range(3)]
        task = {"id": f"{kinds[index]}-{number}", "kind": kinds[index], "features": features}
        made = running.post("/v1/decisions", {"task": task}).json()
        chance = GOOD[kinds[index]][list(USD).index(made["agent"])]
        report = {"decision_id": made["id"], "reward": float(rng.random() < chance), "elapsed_s": float(rng.gamma(2.0))}
        running.post("/v1/feedback", {**report, "cost_usd": USD[made["agent"]]})


def shoot(browser, running):
    more = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    sizes = [("light", 1280), *([("dark", 1280), ("light", 390), ("dark", 390)] if more else [])]
    for scheme, width in sizes:
        page = browser.new_context(viewport={"width": width, "height": 860}, color_scheme=scheme).new_page()
        page.set_default_timeout(120_000)
        page.goto(f"http://127.0.0.1:{running.port}/?last=all")
        page.wait_for_selector("[data-chart=plane] .dot.router")
        page.wait_for_timeout(1200)
        if more:
            page.screenshot(path=more / f"whole-{scheme}-{width}.png", full_page=True)
        if (scheme, width) == ("light", 1280):
            both = [page.locator(f"[data-chart={name}]").bounding_box() for name in ("multipliers", "plane")]
            left, right = min(b["x"] for b in both), max(b["x"] + b["width"] for b in both)
            clip = {"x": left - 8, "y": both[0]["y"] - 8, "width": right - left + 16, "height": both[0]["height"] + 16}
            page.screenshot(path=OUT / "dashboard-plane.png", clip=clip, full_page=True)


if __name__ == "__main__":
    main()

"""Takes the screenshots in docs/img from the demonstration: python docs/site/screenshots.py

With names of scenarios as arguments, only those are played and taken; ``dashboard`` takes that page alone.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests" / folder) for folder in ("service", "browser")]
sys.path.append(str(ROOT / "examples" / "scenarios"))

from browser_running import ARGUMENTS, chromium_path, go
from service_running import Running

from bot_orch.service.config import parse_config

DEMO = ROOT / "examples" / "demo" / "traffic.py"
OUT = ROOT / "docs" / "img"
LEARN_S = float(os.environ.get("LEARN_S", "55"))
DESK = {"viewport": {"width": 1280, "height": 860}}
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True, "device_scale_factor": 2}


SCENARIOS = {"prices": 600, "outage": 400, "gaming": 500}  # requests per phase


def main():
    for name in sys.argv[1:]:
        if name == "dashboard":
            take(seconds=LEARN_S, shoot=shoot_dashboard)
        else:
            take_scenario(name)
    if not sys.argv[1:]:
        take(seconds=LEARN_S, shoot=shoot)


def take_scenario(name):
    """Play it, then serve its log with the settings of its last phase: a slow machine changes nothing."""
    with TemporaryDirectory() as folder:
        player, scenario, file = import_module("play"), import_module(name).SCENARIO, Path(folder) / "bot-orch.yaml"
        file.write_text(scenario.phases[0].document(file.parent))
        with player.serving(file) as service:
            player.play(scenario, service, rounds=SCENARIOS[name], rate=20.0)
        running = Running(parse_config(scenario.phases[-1].document(file.parent)))
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium_path(), args=ARGUMENTS)
            page = browser.new_context(**DESK).new_page()
            page.set_default_timeout(120_000)
            page.goto(f"http://127.0.0.1:{running.port}/")
            page.wait_for_selector("[data-chart=share] .area")
            page.wait_for_timeout(1200)
            clip = {"x": 0, "y": 0, "width": 1280, "height": 820}
            page.screenshot(path=OUT / f"scenario-{name}.png", clip=clip, full_page=True)
            browser.close()
        running.stop()


def take(*, seconds, shoot):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    command = [sys.executable, str(DEMO), "--port", str(port), "--rate", "20"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=ARGUMENTS)
        demo = subprocess.Popen(command)
        try:
            time.sleep(seconds)
            shoot(browser, f"http://127.0.0.1:{port}")
            browser.close()
        finally:
            demo.send_signal(signal.SIGINT)
            demo.wait(15)


def shoot_dashboard(browser, url):
    page = browser.new_context(**DESK).new_page()
    page.goto(url)
    page.wait_for_selector("[data-chart=share] .area")
    page.wait_for_timeout(1200)
    page.screenshot(path=OUT / "dashboard.png", clip={"x": 0, "y": 0, "width": 1280, "height": 1160}, full_page=True)
    return page


def shoot(browser, url):
    page = shoot_dashboard(browser, url)
    page.click(".recent a >> nth=8")
    page.wait_for_selector("text=Terms of every score")
    page.screenshot(path=OUT / "dashboard-why.png")
    go(page, f"{url}/queue")
    page.keyboard.press("n")  # one to have something closed
    page.wait_for_selector("text=Yours to answer")
    page.fill("textarea", "Refund it: she could not have asked in time.")
    page.click("[data-submit]")
    page.wait_for_selector("text=by you")
    page.wait_for_timeout(13_000)  # a newer task has come
    go(page, f"{url}/queue")
    page.click(".ticket.open >> nth=-1")
    page.wait_for_selector("text=Why a person")
    page.keyboard.press("c")
    page.wait_for_selector("text=Yours to answer")
    page.keyboard.press("a")
    page.keyboard.type("Yes, and say so in the record.")
    page.screenshot(path=OUT / "queue-ticket.png")
    go(page, f"{url}/queue")
    page.screenshot(path=OUT / "queue.png")
    phone = browser.new_context(**PHONE).new_page()
    phone.goto(f"{url}/queue")
    phone.tap(".ticket.mine")
    phone.wait_for_selector("text=Yours to answer")
    phone.wait_for_timeout(300)
    phone.screenshot(path=OUT / "queue-phone.png")


if __name__ == "__main__":
    main()

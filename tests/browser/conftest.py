"""A real Chromium, and servers for it."""

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "service"))  # for service_running
sys.path.insert(0, str(Path(__file__).parent))

from browser_running import ARGUMENTS, chromium_path, serve


@pytest.fixture(scope="module")  # its event loop must not outlive the module: other tests run their own
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = chromium_path()
    if path is None:
        pytest.skip("chromium is not installed")
    with api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser):
    """A page on a desk; errors of scripts fail the test."""
    context = browser.new_context(viewport={"width": 1100, "height": 800})
    page = context.new_page()
    page.set_default_timeout(60_000)
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert not errors


@pytest.fixture
def running(tmp_path):
    server = serve(tmp_path / "log.sqlite")
    yield server
    server.stop()
    shutil.rmtree(tmp_path, ignore_errors=True)

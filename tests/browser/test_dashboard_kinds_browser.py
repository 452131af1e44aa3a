"""Kinds of tasks on the dashboard, in a real Chromium."""

import pytest
from browser_running import serve_two
from test_dashboard_many import CUT_OFF, contrast

KINDS = ("refund", "order", "order")


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """Sixty tasks of two kinds."""
    running = serve_two(tmp_path_factory.mktemp("mixed") / "log.sqlite")
    for number in range(60):
        kind = KINDS[number % 3]
        running.post("/v1/tasks", {"task": {"id": f"{kind}-{number}", "kind": kind, "text": "x"}})
    yield running
    running.stop()


def show(page, running, query=""):
    page.goto(f"{running.url}/{query}")
    page.wait_for_selector("[data-chart=share] path.area")


def test_a_kind_is_chosen_by_a_click_and_stays_in_the_address(mixed, page):
    show(page, mixed, "?last=1h")
    page.click(".kinds a:has-text('refund')")
    page.wait_for_url("**kind=refund**")
    page.wait_for_selector("[data-chart=share] path.area")
    assert "last=1h" in page.url and "kind=refund" in page.url
    assert page.inner_text(".tile dd >> nth=0").split()[0] == "20"
    page.click(".choices a:has-text('6 h')")
    page.wait_for_url("**last=6h**")
    assert "kind=refund" in page.url and page.inner_text(".kinds [aria-current]").startswith("refund")
    page.wait_for_selector("#legend button")
    page.click("#legend button >> nth=0")
    assert "kind=refund" in page.url and "agents=small" in page.url
    with page.expect_download() as download:
        page.click("[data-chart=reward] .csv")
    assert download.value.suggested_filename == "bot-orch-reward.csv"


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_cut_off(mixed, page, width):
    page.set_viewport_size({"width": width, "height": 844})
    show(page, mixed, "?kind=refund")
    assert page.evaluate(CUT_OFF) == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_readable_in_light_and_dark(mixed, page, scheme):
    page.emulate_media(color_scheme=scheme)
    show(page, mixed)
    for selector in (".kinds a", ".kinds small"):
        ratio, under = contrast(page, selector)
        assert ratio >= 4.5 and (under < 0.1) == (scheme == "dark"), (selector, ratio)

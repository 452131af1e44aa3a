"""The cost-quality plane, multipliers and kinds of tasks in a real Chromium."""

import pytest
from browser_running import serve_priced
from test_dashboard_many import CUT_OFF, contrast

KINDS = ("refund", "order", "order")


@pytest.fixture(scope="module")
def priced(tmp_path_factory):
    """Sixty tasks of two kinds."""
    running = serve_priced(tmp_path_factory.mktemp("priced") / "log.sqlite")
    for number in range(60):
        kind = KINDS[number % 3]
        running.post("/v1/tasks", {"task": {"id": f"{kind}-{number}", "kind": kind, "text": "x"}})
    yield running
    running.stop()


def show(page, running, query=""):
    page.goto(f"{running.url}/{query}")
    page.wait_for_selector("[data-chart=plane] .dot.router")


def test_the_plane_has_agents_error_bars_hull_and_router(priced, page):
    show(page, priced)
    names = page.eval_on_selector_all("[data-chart=plane] circle.dot", "all => all.map(e => e.dataset.name)")
    assert sorted(names) == ["large", "small"]
    assert (
        page.locator("[data-chart=plane] .bar").count() == 2 and page.locator("[data-chart=plane] .hull").count() == 1
    )
    texts = page.eval_on_selector_all("[data-chart=plane] .name", "all => all.map(e => e.textContent)")
    assert set(texts) <= {"large", "small", "router"} and "router" in texts
    axis = page.eval_on_selector_all("[data-chart=plane] .axis.x", "all => all.map(e => e.textContent)")
    assert all(text.startswith("$") for text in axis) and len(set(axis)) == len(axis) >= 2
    large, small = (
        page.locator(f"[data-chart=plane] [data-name={name}]").bounding_box() for name in ("large", "small")
    )
    assert large["x"] > small["x"] and large["y"] < small["y"], "dearer to the right, better above"


def test_pointing_at_a_point_says_its_means(priced, page):
    show(page, priced)
    page.hover("[data-chart=plane] [data-name=large]")
    page.wait_for_selector("[data-chart=plane] .tip:visible")
    text = page.inner_text("[data-chart=plane] .tip")
    assert "large" in text and "±" in text and "$0.02" in text


def test_a_wide_range_of_prices_has_a_logarithmic_axis(page, tmp_path):
    running = serve_priced(tmp_path / "log.sqlite", dear_usd=2.0)
    for number in range(24):
        running.post("/v1/tasks", {"task": {"id": f"t{number}", "text": "x"}})
    try:
        show(page, running)
        axis = page.eval_on_selector_all("[data-chart=plane] .axis.x", "all => all.map(e => e.textContent)")
        assert "$0.01" in axis and "$1" in axis
    finally:
        running.stop()


def test_multipliers_have_a_line_per_limit_with_its_unit(priced, page):
    show(page, priced)
    lines = "[data-chart=multipliers] .line"
    page.wait_for_selector(lines, state="attached")
    assert set(page.eval_on_selector_all(lines, "all => all.map(e => e.dataset.name)")) == {
        "budget",
        "capacity of large",
    }
    assert "largest = 1" in page.inner_text("[data-chart=multipliers] figcaption")
    page.hover("[data-chart=multipliers] svg")
    page.wait_for_selector("[data-chart=multipliers] .tip:visible")
    assert "per dollar" in page.inner_text("[data-chart=multipliers] .tip")


def test_a_kind_is_chosen_by_a_click_and_stays_in_the_address(priced, page):
    show(page, priced, "?last=1h")
    page.click(".kinds a:has-text('refund')")
    page.wait_for_url("**kind=refund**")
    page.wait_for_selector("[data-chart=plane] .dot.router")
    assert "last=1h" in page.url and "kind=refund" in page.url
    assert page.inner_text(".tile dd >> nth=0").split()[0] == "20"
    page.click(".choices a:has-text('6 h')")
    page.wait_for_url("**last=6h**")
    assert "kind=refund" in page.url and page.inner_text(".kinds [aria-current]").startswith("refund")
    page.wait_for_selector("#legend button")
    page.click("#legend button >> nth=0")
    assert "kind=refund" in page.url and "agents=small" in page.url
    with page.expect_download() as download:
        page.click("[data-chart=plane] .csv")
    assert download.value.suggested_filename == "bot-orch-plane.csv"


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_cut_off(priced, page, width):
    page.set_viewport_size({"width": width, "height": 844})
    show(page, priced, "?kind=refund")
    assert page.evaluate(CUT_OFF) == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_readable_in_light_and_dark(priced, page, scheme):
    page.emulate_media(color_scheme=scheme)
    show(page, priced)
    for selector in ("[data-chart=plane] .name", "[data-chart=multipliers] .axis", ".kinds a", ".kinds small"):
        ratio, under = contrast(page, selector)
        assert ratio >= 4.5 and (under < 0.1) == (scheme == "dark"), (selector, ratio)

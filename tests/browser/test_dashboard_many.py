"""The dashboard with fifty agents and several days, in a real Chromium: nothing is cut off, nothing looks the same."""

from itertools import pairwise

import pytest
from browser_running import serve_many

from bot_orch.clock import ManualClock

NOON = 1_767_268_800  # 2026-01-01T12:00Z
CHARTS = ("share", "propensity", "reward", "cost")
MODELS = [f"agent-{number:02}" for number in range(49)]
WIDTHS = (1280, 1024, 390)
CUT_OFF = """() => [...document.querySelectorAll('main *')].filter(e => {
  const [box, unseen] = [e.getBoundingClientRect(), e.closest('.hidden, thead')];
  if (!box.width || unseen && getComputedStyle(unseen).position === 'absolute') return false;
  const clips = getComputedStyle(e).overflowX !== 'visible';
  return box.right > innerWidth + 0.5 || clips && e.scrollWidth > e.clientWidth + 1;
}).map(e => e.outerHTML.slice(0, 90))"""
LABELS = """axis => [...document.querySelectorAll('.chart')]
  .map(f => [...f.querySelectorAll(`.axis.${axis}`)].map(e => e.textContent)).filter(texts => texts.length)"""
NAMES = "all => all.map(e => e.dataset.name)"


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Fifty agents; two hours of traffic on one day, and two on the next but one."""
    clock = ManualClock(NOON * 1_000_000)
    running = serve_many(tmp_path_factory.mktemp("many") / "log.sqlite", 50, clock)
    for number in range(120):
        clock.advance(120.0 if number != 60 else 2 * 86_400.0)
        running.post("/v1/tasks", {"task": {"id": f"t{number}", "text": "x"}, "eligible": MODELS})
    running.post("/v1/tasks", {"task": {"id": "asked", "text": "x"}, "eligible": ["agent-49"], "background": True})
    yield running
    running.stop()


def show(page, running, query="?last=all", width=1280):
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{running.url}/{query}")
    page.wait_for_selector("[data-chart=share] path.area")
    page.wait_for_selector("#connection:text-is('live')")


@pytest.mark.parametrize("width", WIDTHS)
def test_no_column_is_cut_off(many, page, width):
    show(page, many, width=width)
    assert page.evaluate(CUT_OFF) == []
    page.goto(f"{many.url}/decisions")
    assert page.evaluate(CUT_OFF) == []
    page.click("tbody a >> nth=0")
    page.wait_for_selector("text=Terms of every score")
    assert page.evaluate(CUT_OFF) == [] and "−Cost" in page.content()
    page.goto(f"{many.url}/queue")
    page.click(".ticket >> nth=0")
    page.wait_for_selector("text=Why a person")
    assert page.evaluate(CUT_OFF) == [] and "−Cost" in page.content()


def test_control_a_table_that_is_too_wide_is_seen(many, page):
    show(page, many)
    page.evaluate("document.querySelector('table.agents').style.width = '1500px'")
    assert page.evaluate(CUT_OFF)


def test_fifty_agents_have_fifty_looks_and_the_busiest_have_names(many, page):
    show(page, many)
    looks = page.eval_on_selector_all("#legend .swatch", "all => all.map(e => e.className)")
    assert len(looks) == len(set(looks)) == 50
    drawn = page.eval_on_selector_all(
        "#legend .swatch", "all => all.map(e => getComputedStyle(e).color + getComputedStyle(e).background)"
    )
    assert len(set(drawn)) == 50
    lines = page.eval_on_selector_all("[data-chart=reward] .line:not(.other)", NAMES)
    names = page.eval_on_selector_all("[data-chart=reward] .name", "all => all.map(e => e.textContent)")
    assert len(lines) == 8 and set(names) == set(lines)
    assert "42 others" in page.text_content("[data-chart=share] svg")


def test_names_at_the_lines_do_not_overlap(many, page):
    show(page, many)
    for chart in CHARTS:
        boxes = page.eval_on_selector_all(
            f"[data-chart={chart}] .name", "all => all.map(e => e.getBoundingClientRect()).map(b => [b.top, b.bottom])"
        )
        boxes.sort()
        assert all(below[0] >= above[1] - 4 for above, below in pairwise(boxes)), chart


def test_an_agent_chosen_in_the_legend_stands_out_and_is_in_the_address(many, page):
    show(page, many)
    page.click("#legend button >> nth=37")
    one = "[data-chart=propensity] .line:not(.other)"
    assert page.eval_on_selector_all(one, NAMES) == ["agent-37"]
    assert (
        page.url.endswith("agents=agent-37")
        and page.get_attribute("#legend button >> nth=37", "aria-pressed") == "true"
    )
    show(page, many, f"?{page.url.partition('?')[2]}")  # what a colleague sees
    assert page.eval_on_selector_all(one, NAMES) == ["agent-37"]
    assert "agents=agent-37" in page.get_attribute(".choices a >> nth=0", "href")
    page.click("#legend button >> nth=37")
    page.mouse.move(0, 0)
    page.wait_for_function(f"document.querySelectorAll('{one}').length === 8")


def contrast(page, selector):
    """The contrast between an element's text and the first background under it, as WCAG defines it."""
    return page.evaluate(
        """selector => {
          const numbers = (text) => text.match(/[0-9.]+/g).map(Number);
          const linear = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
          const light = (c) => c.slice(0, 3).map(v => linear(v / 255))
            .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
          const element = document.querySelector(selector);
          const style = getComputedStyle(element);
          const ink = numbers(element.namespaceURI.includes('svg') ? style.fill : style.color);
          let under = element;
          while (under && (numbers(getComputedStyle(under).backgroundColor)[3] ?? 1) === 0) under = under.parentElement;
          const [a, b] = [light(ink), light(numbers(getComputedStyle(under).backgroundColor))];
          return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), b];
        }""",
        selector,
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_are_readable(many, page, scheme):
    page.emulate_media(color_scheme=scheme)
    show(page, many)
    for selector in (
        ".tile dd",
        ".tile dt",
        ".chart .axis",
        ".chart .name",
        ".legend button.faint",
        ".agents td",
        ".csv",
    ):
        ratio, under = contrast(page, selector)
        assert ratio >= 4.5 and (under < 0.1) == (scheme == "dark"), (selector, ratio, under)

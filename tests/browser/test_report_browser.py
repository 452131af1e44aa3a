"""The report of the paper in a browser: its height, a phone, its navigation, its figures and its numbers."""

import os
import re
import time

import numpy as np
import pytest

from bot_orch.cli import main
from bot_orch.lab.harness.experiment import Scale, discover
from bot_orch.lab.harness.runner import read_log

_SHOWN = "e => !e.closest('details:not([open])')"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """All experiments that run by default, with few seeds: as many sections, figures and tables as the real page.

    Test processes share it: the first that comes runs it, the others wait.
    """
    base = tmp_path_factory.getbasetemp()
    out = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "report"
    try:
        out.mkdir()
    except FileExistsError:
        until = time.monotonic() + 900.0
        while not (out / "tables.csv").exists() and time.monotonic() < until:
            time.sleep(0.2)
    else:
        words = ["--quick", "--seeds", "2", "--quiet", "--jobs", "2", "--out", str(out)]
        assert main(["reproduce", *words]) == 0
    return out


@pytest.fixture
def report(browser, folder):
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: errors.append(request.url) if request.url.startswith("http") else None)
    page.goto(f"file://{folder}/index.html")
    yield page
    page.close()
    assert not errors


def scroll(page):
    return page.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")


def unfold(page):
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")


def test_with_extras_folded_the_page_is_at_most_21500_pixels_tall(report):
    """Tables with published numbers are not folded."""
    width, height = scroll(report)
    assert width <= 1280 and 4_000 < height <= 21_500
    unfold(report)
    assert scroll(report)[1] > 1.5 * height, "control: folds hold something"


@pytest.mark.parametrize("width", [390, 800, 1099, 1280])
def test_only_wide_tables_and_figures_scroll_sideways(report, width):
    report.set_viewport_size({"width": width, "height": 800})
    for _ in range(2):
        assert scroll(report)[0] <= width
        unfold(report)
    wide = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth).length"
    assert width > 390 or report.evaluate(wide) > 3, "control: boxes do scroll on a phone"


def test_navigation_leads_to_every_section(report):
    links = report.eval_on_selector_all("nav a", "all => all.map(a => a.getAttribute('href').slice(1))")
    ids = report.eval_on_selector_all("[id]", "all => all.map(e => e.id)")
    assert len(ids) == len(set(ids)), "an id stands once"
    assert set(links) <= set(ids)
    sections = report.eval_on_selector_all("section", "all => all.map(e => e.id)")
    assert set(sections) <= set(links) and set(sections) == set(discover())
    inside = report.eval_on_selector_all("main a", "all => all.map(a => a.getAttribute('href').slice(1))")
    assert set(inside) <= set(ids)


def test_a_link_to_something_folded_unfolds_it(report):
    name = report.eval_on_selector_all("details figure", "all => all.map(e => e.id)")[0]
    assert not report.eval_on_selector(f"#{name}", _SHOWN)
    report.evaluate(f"location.hash = '{name}'")
    report.wait_for_function(f"document.getElementById('{name}').closest('details').open")


def test_printing_unfolds_everything_and_then_folds_it_again(report):
    report.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert report.eval_on_selector_all("details", "all => all.every(d => d.open)")
    report.evaluate("dispatchEvent(new Event('afterprint'))")
    assert not report.eval_on_selector_all("details", "all => all.some(d => d.open)")


def test_every_figure_has_a_text_and_a_caption(report):
    figures = report.eval_on_selector_all(
        "figure", "all => all.map(f => [f.querySelector('img').alt, f.querySelector('figcaption').textContent])"
    )
    assert len(figures) == len(report.query_selector_all("img")) > 15
    assert all(len(alt) > 20 and len(caption) > 20 for alt, caption in figures)
    assert not any("$" in alt or "<" in alt for alt, _ in figures)


def test_figures_come_before_tables(report):
    order = "all => all.map(s => [...s.querySelectorAll('figure, table')].filter(%s).map(e => e.tagName))"
    for tags in report.eval_on_selector_all("section", order % _SHOWN):
        assert tags == sorted(tags), "FIGURE before TABLE"


def test_no_number_is_missing(report):
    unfold(report)
    text = report.inner_text("main")
    assert not re.search(r"\b(nan|inf|None)\b", text)
    cells = report.eval_on_selector_all("td", "all => all.map(e => e.textContent)")
    assert not any(re.match(r"-0\.0+\b", cell) for cell in cells), "zero has no sign"
    sentences = re.sub(r"(?m)^.*(bot-orch|figures/).*$", "", text)
    assert not re.search(r"\$|&[a-z]+;", sentences)


def test_the_page_says_how_long_it_took_and_on_what(report):
    text = report.inner_text("main")
    assert re.search(r"\d+ s for \d+ units of work in 2 processes", text)
    assert re.search(r"\d+ processors?, ", text) and "Python 3." in text and "NumPy " in text


def test_a_dark_screen_gets_a_dark_page(report):
    light = report.evaluate("getComputedStyle(document.querySelector('main')).backgroundColor")
    report.emulate_media(color_scheme="dark")
    assert report.evaluate("getComputedStyle(document.querySelector('main')).backgroundColor") != light


def test_every_lambda_figure_has_the_papers_points(folder):
    log = read_log(folder)
    seen = 0
    for experiment in discover().values():
        if not experiment.id.endswith("-lambda"):
            continue
        results = {unit.key: log[experiment.id, unit.key] for unit in experiment.units(Scale(quick=True, seeds=2))}
        for view in experiment.figures(results):
            figure = view.draw()
            for axis in figure.axes:
                crosses = [line for line in axis.get_lines() if line.get_marker() == "x"]
                known = sum(np.isfinite(line.get_ydata()).sum() for line in crosses)
                assert known > 1, (view.name, axis.get_title())
                seen += 1
    assert seen >= 26

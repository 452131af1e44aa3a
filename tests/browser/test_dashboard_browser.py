"""The dashboard in a real Chromium: it draws, it updates, it explains, it talks to nobody else."""

import time

CHARTS = ("share", "propensity", "reward", "cost")


def work(running, count):
    for number in range(count):
        running.post("/v1/tasks", {"task": {"id": f"t{number}", "text": "x"}, "eligible": ["model"]})


def test_it_draws_every_chart_and_updates(running, page):
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    work(running, 8)
    page.goto(f"{running.url}/")
    page.wait_for_selector("[data-chart=share] path.area")
    for name in CHARTS:
        page.wait_for_selector(f"[data-chart={name}] svg :is(.line, .area)", state="attached")
    assert page.inner_text("#legend").split() == ["model", "person"]
    before = page.inner_text(".tile dd >> nth=0")
    work(running, 5)
    page.wait_for_function("t => document.querySelector('.tile dd').innerText !== t", arg=before)
    assert {url.partition("://")[2].partition("/")[0] for url in asked} == {f"127.0.0.1:{running.port}"}


def test_a_single_moment_among_others_is_drawn(running, page):
    """As when a decision and its outcome fall on two sides of a full second."""
    made = running.post("/v1/decisions", {"eligible": ["model"]}).json()
    time.sleep(1.1)
    running.post("/v1/feedback", {"decision_id": made["id"], "reward": 1.0})
    charts = running.get("/dashboard/live").json()["charts"]
    assert charts["share"][0] == [1.0, None]
    page.goto(f"{running.url}/")
    page.wait_for_selector("[data-chart=share] path.area")
    assert page.locator("[data-chart=share] path.area").first.bounding_box()["width"] > 1


def test_pointing_shows_values(running, page):
    work(running, 8)
    page.goto(f"{running.url}/")
    page.wait_for_selector("[data-chart=reward] path.line", state="attached")
    page.hover("[data-chart=reward] svg")
    page.wait_for_selector("[data-chart=reward] .tip:visible")
    assert "model" in page.inner_text("[data-chart=reward] .tip")


def test_a_decision_explains_itself(running, page):
    work(running, 3)
    page.goto(f"{running.url}/")
    page.click(".recent a >> nth=0")
    page.wait_for_selector("text=Why model?")
    text = page.inner_text("main")
    assert "Terms of every score" in text and "model says: this one is good" in text and "reward" in text


def test_a_lost_connection_is_said_and_found_again(running, page):
    page.goto(f"{running.url}/")
    page.wait_for_selector("#legend li")
    page.route("**/dashboard/live**", lambda route: route.abort())
    page.wait_for_selector("text=no connection")
    page.unroute("**/dashboard/live**")
    page.wait_for_selector("#connection:text-is('live')")


def test_it_fits_a_phone(running, browser):
    work(running, 4)
    page = browser.new_page(viewport={"width": 360, "height": 740})
    page.goto(f"{running.url}/")
    page.wait_for_selector("[data-chart=share] path.area")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.close()

"""The queue in a real Chromium: by keyboard alone, and on a phone."""

from browser_running import go, output, serve, settle, submit

from bot_orch.core.events import Noted
from bot_orch.service.problems import StorageError

FORM = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "http://127.0.0.1", "Host": "127.0.0.1"}

CONTROLS = "main a, main button, main textarea, main input:not([type=hidden])"
NUMBERS = "(window.all = [...document.querySelectorAll('*')], [...window.all.keys()])"


def test_claim_and_answer_by_keyboard_alone(running, page):
    task = submit(running, "What is 2 + 2?")
    go(page, f"{running.url}/queue")
    page.focus(".ticket")
    page.keyboard.press("Enter")
    settle(page, "text=Why a person")
    page.keyboard.press("c")
    settle(page, "text=Yours to answer")
    page.keyboard.press("a")
    page.keyboard.type("It is four, not n or x.")  # letters of shortcuts are only letters here
    page.keyboard.press("Escape")
    page.keyboard.press("a")
    page.keyboard.press("Control+Enter")
    assert output(running, task)["output"] == "It is four, not n or x."
    settle(page, "text=Answered by you")


def test_everything_can_be_reached_with_the_tab_key(running, page):
    submit(running)
    go(page, f"{running.url}/queue")
    page.keyboard.press("n")
    settle(page, "text=Yours to answer")
    wanted = set(page.evaluate(f"{NUMBERS}.filter(i => all[i].matches('{CONTROLS}'))"))
    seen = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        seen |= set(page.evaluate(f"{NUMBERS}.filter(i => all[i] === document.activeElement)"))
    assert len(wanted) == 7 and wanted <= seen


def test_release_and_reject_by_keyboard(running, page):
    task = begin(running, page, "reject me")
    page.keyboard.press("x")
    settle(page, "text=Waiting")
    page.keyboard.press("n")
    settle(page, "text=Yours to answer")
    with page.expect_navigation():  # it waits for the load of the next page, and so for its scripts
        page.keyboard.press("h")
    settle(page, "text=Yours to answer")
    page.keyboard.press("r")
    page.keyboard.type("no way to know")
    page.keyboard.press("Enter")
    assert output(running, task)["error"] == "rejected"


def test_the_countdown_runs_and_a_lost_lease_is_told(running, page, monkeypatch):
    monkeypatch.setattr("bot_orch.service.queue.tickets.LEASE_S", 8.0)
    submit(running, "slowly")
    go(page, f"{running.url}/queue")
    page.keyboard.press("n")
    settle(page, "text=yours for")
    before = page.inner_text(".clock >> nth=0")
    page.keyboard.press("a")
    page.keyboard.type("half an ans")
    page.wait_for_function("t => document.querySelector('.clock').innerText !== t", arg=before)
    settle(page, "text=This ticket has changed")
    page.click("text=Show it")
    page.wait_for_selector("#changed", state="detached")
    page.wait_for_load_state("load")
    page.keyboard.press("c")
    settle(page, "text=Yours to answer")
    assert page.input_value("textarea") == "half an ans"


def test_on_a_phone(running, browser):
    long = "A rather long question with averyveryverylongwordthatdoesnotbreakbyitselfanywhereatall " * 3
    task = submit(running, long)
    context = browser.new_context(
        viewport={"width": 360, "height": 740}, is_mobile=True, has_touch=True, device_scale_factor=2
    )
    page = context.new_page()
    go(page, f"{running.url}/queue")
    fits = "document.documentElement.scrollWidth <= window.innerWidth"
    assert page.evaluate(fits)
    page.tap("text=Claim next")
    settle(page, "text=Yours to answer")
    assert page.evaluate(fits)
    sizes = page.eval_on_selector_all("main button", "all => all.map(e => e.getBoundingClientRect().height)")
    assert min(sizes) >= 44  # a thumb needs that much
    page.fill("textarea", "answered on a phone")
    page.tap("text=Send answer")
    assert output(running, task)["output"] == "answered on a phone"
    context.close()


def test_it_works_without_scripts(running, browser):
    task = submit(running, "no scripts here")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    go(page, f"{running.url}/queue")
    page.click("text=Claim next")
    page.fill("textarea", "still works")
    page.click("text=Send answer")
    assert output(running, task)["output"] == "still works"
    context.close()


def test_the_list_updates_by_itself(running, page):
    go(page, f"{running.url}/queue")
    settle(page, "text=Nothing waits")
    submit(running, "brand new")
    settle(page, "text=brand new")


def begin(running, page, text):
    """A ticket of this person, open in the browser."""
    task = submit(running, text)
    go(page, f"{running.url}/queue")
    page.keyboard.press("n")
    settle(page, "text=Yours to answer")
    return task


def test_typed_text_survives_an_expired_ticket(running, page):
    begin(running, page, "too late")
    page.keyboard.press("a")
    page.keyboard.type("nearly done")
    ticket = running.get("/v1/queue").json()["tickets"][0]["id"]
    expire(running, ticket)
    settle(page, "text=This ticket has changed")
    page.click("text=Show it")
    settle(page, "text=Nobody answered in time")
    assert page.input_value(".kept textarea") == "nearly done"
    page.reload()
    assert page.input_value(".kept textarea") == "nearly done"
    page.click(".kept button:text-is('Discard')")
    page.reload()
    page.wait_for_selector("text=Nobody answered in time")
    assert not page.locator(".kept").count()


def expire(running, ticket):
    def note():
        writer = running.runtime.writer
        running.runtime.queue._stage(writer.stamp(), Noted("queue.expired", ticket))

    running.call(note)


def test_typed_text_survives_an_answer_that_comes_too_late(running, page, browser):
    begin(running, page, "too late to send")
    ticket = running.get("/v1/queue").json()["tickets"][0]["id"]
    page.fill("textarea", "sent too late")
    page.route("**/queue/live**", lambda route: route.abort())
    expire(running, ticket)
    page.click("[data-submit]")
    page.wait_for_selector("text=Not sent")
    assert page.input_value("textarea") == "sent too late"
    page.click("text=Show the ticket as it is now")
    settle(page, "text=Nobody answered in time")
    assert page.input_value(".kept textarea") == "sent too late"


def test_without_scripts_a_refused_answer_comes_back(running, browser):
    submit(running, "plain")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    go(page, f"{running.url}/queue")
    page.click("text=Claim next")
    page.fill("textarea", "plain words")
    expire(running, running.get("/v1/queue").json()["tickets"][0]["id"])
    page.click("text=Send answer")
    assert page.input_value(".kept textarea") == "plain words"
    context.close()


def test_typed_text_survives_a_server_that_is_gone(running, page):
    task = begin(running, page, "is anybody there?")
    page.fill("textarea", "still here")
    page.route("**/queue/**", lambda route: route.abort())
    page.click("[data-submit]")
    page.wait_for_selector("text=the server does not answer")
    page.wait_for_selector("#connection:has-text('no connection')")
    assert page.input_value("textarea") == "still here" and page.url.startswith(f"{running.url}/queue/")
    page.unroute("**/queue/**")
    page.wait_for_selector("#connection:text-is('live')")
    page.click("[data-submit]")
    assert output(running, task)["output"] == "still here"


def test_typed_text_survives_storage_that_fails(running, page):
    begin(running, page, "full disk")
    page.fill("[name=reason]", "why not")

    def refuse(*_):
        raise StorageError("the log cannot be written")

    act, running.runtime.queue.act = running.runtime.queue.act, refuse
    page.press("[name=reason]", "Enter")
    page.wait_for_selector("text=Not sent: the log cannot be written")
    running.runtime.queue.act = act
    page.reload()
    assert page.input_value("[name=reason]") == "why not"
    body = "reason=typed&text=also+typed"
    running.runtime.queue.act = running.runtime.queue.look = refuse
    answer = running.request(
        "POST", page.url.partition(str(running.port))[2] + "/reject", raw=body.encode(), headers=FORM
    )
    assert answer.status == 503 and b">typed<" in answer.body and b">also typed<" in answer.body
    running.runtime.queue.act = act
    del running.runtime.queue.look


def test_the_list_says_that_the_server_is_gone_and_that_it_is_back(running, page):
    go(page, f"{running.url}/queue")
    page.wait_for_selector("#connection:text-is('live')")
    page.route("**/queue/**", lambda route: route.abort())
    page.wait_for_selector("#connection:has-text('no connection to the server')")
    page.click("text=Claim next")
    page.wait_for_selector("text=Not sent: the server does not answer")
    page.unroute("**/queue/**")
    page.wait_for_selector("#connection:text-is('live')")


def test_the_list_is_bounded_and_its_count_is_the_total(running, page, monkeypatch):
    monkeypatch.setattr("bot_orch.service.queue.pages._OPEN_SHOWN", 3)
    for number in range(5):
        submit(running, f"question {number:02}")
    go(page, f"{running.url}/queue")
    assert page.inner_text(".count") == "5" and page.locator(".tickets .ticket").count() == 3
    expire(running, running.get("/v1/queue").json()["tickets"][0]["id"])
    settle(page, ".closed .ticket")
    assert page.inner_text(".count") == "4"


def test_typed_text_survives_being_signed_out(tmp_path, page):
    token = "secret-token-of-ada"  # noqa: S105
    running = serve(tmp_path / "log.sqlite", token=token)
    body = {"task": {"id": "t", "text": "who are you?"}, "eligible": ["person"], "background": True}
    running.post("/v1/tasks", body, headers={"Authorization": f"Bearer {token}"})
    go(page, f"{running.url}/queue")
    page.fill("#token", token)
    page.keyboard.press("Enter")
    page.click(".ticket")
    page.click("text=Claim")
    settle(page, "text=Yours to answer")
    page.fill("textarea", "it is me")
    page.context.clear_cookies()
    page.wait_for_selector("#connection:has-text('signed out')")
    page.click("[data-submit]")
    page.click("#unsent a:text-is('Sign in')")
    page.fill("#token", token)
    page.keyboard.press("Enter")
    settle(page, "text=Yours to answer")
    assert page.input_value("textarea") == "it is me"
    running.stop()

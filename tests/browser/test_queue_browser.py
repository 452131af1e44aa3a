"""The queue in a real Chromium: by keyboard alone, and on a phone."""

from browser_running import go, output, settle, submit

from bot_orch.service.queue.rules import QueueSettings

CONTROLS = "main a, main button, main textarea, main input:not([type=hidden])"
NUMBERS = "(window.all = [...document.querySelectorAll('*')], [...window.all.keys()])"


def focused(page):
    return page.evaluate("document.activeElement.getAttribute('href') || document.activeElement.name || ''")


def test_claim_and_answer_by_keyboard_alone(running, page):
    running.runtime.queue.settings = QueueSettings(lease_s=60.0, undo_s=60.0)
    task = submit(running, "What is 2 + 2?", drafts=[{"agent": "model", "text": "five"}])
    go(page, f"{running.url}/queue")
    page.keyboard.press("j")
    assert focused(page).startswith("/queue/")
    page.keyboard.press("Enter")
    settle(page, "text=Why a person")
    page.keyboard.press("c")
    settle(page, "text=Yours to answer")
    assert "five" in page.inner_text(".drafts")
    page.keyboard.press("a")
    page.keyboard.type("It is four, not n or s.")  # letters of shortcuts are only letters here
    page.keyboard.press("Control+Enter")
    settle(page, "text=Undo")
    page.keyboard.press("u")
    settle(page, "text=Yours to answer")
    running.runtime.queue.settings = QueueSettings(lease_s=60.0, undo_s=0.5)
    page.keyboard.press("a")
    page.keyboard.type("Four.")
    page.keyboard.press("Escape")
    page.keyboard.press("a")
    page.keyboard.press("Control+Enter")
    assert output(running, task)["output"] == "Four."
    settle(page, "text=Answered by you")


def test_everything_can_be_reached_with_the_tab_key(running, page):
    submit(running, drafts=[{"agent": "model", "text": "draft"}])
    go(page, f"{running.url}/queue")
    page.keyboard.press("n")
    settle(page, "text=Yours to answer")
    wanted = set(page.evaluate(f"{NUMBERS}.filter(i => all[i].matches('{CONTROLS}'))"))
    seen = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        seen |= set(page.evaluate(f"{NUMBERS}.filter(i => all[i] === document.activeElement)"))
    assert len(wanted) == 10 and wanted <= seen


def test_accept_edit_skip_and_reject_by_keyboard(running, page):
    draft = [{"agent": "model", "text": "the draft"}]
    first = submit(running, "accept me", drafts=draft)
    go(page, f"{running.url}/queue")
    page.keyboard.press("n")
    settle(page, "text=Yours to answer")
    page.keyboard.press("1")
    assert output(running, first)["output"] == "the draft"
    second = submit(running, "edit me", drafts=draft)
    go(page, f"{running.url}/queue")
    page.keyboard.press("n")
    settle(page, "text=Yours to answer")
    assert "edit me" in page.inner_text("main")
    page.keyboard.press("e")
    settle(page, "text=Edit the draft of model")
    page.keyboard.press("a")
    page.keyboard.press("Control+End")
    page.keyboard.type(", edited")
    page.keyboard.press("Control+Enter")
    assert output(running, second)["output"] == "the draft, edited"
    third = submit(running, "reject me")
    go(page, f"{running.url}/queue")
    page.keyboard.press("n")
    settle(page, "text=Yours to answer")
    page.keyboard.press("s")
    settle(page, "text=Skipped by you")
    page.keyboard.press("n")
    settle(page, "text=Yours to answer")
    page.keyboard.press("r")
    page.keyboard.type("no way to know")
    page.keyboard.press("Enter")
    assert output(running, third)["error"] == "rejected"


def test_the_countdown_runs_and_a_lost_lease_is_told(running, page):
    running.runtime.queue.settings = QueueSettings(lease_s=8.0, undo_s=1.0)
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
    task = submit(running, long, drafts=[{"agent": "model", "text": "yes " * 60}])
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

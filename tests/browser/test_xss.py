"""Whatever agents and callers say stays text: no element of theirs appears, nothing of theirs runs."""

import pytest
from browser_running import go, serve, submit

from bot_orch.service.web import pages

PAYLOADS = (
    "<script>window.pwned=1</script>",
    '"><img src=x onerror="window.pwned=1">',
    "'><svg onload=window.pwned=1>",
    '" autofocus onfocus="window.pwned=1" x="',
    "</textarea><script>window.pwned=1</script>",
    "</title></style><svg/onload=window.pwned=1>",
    '<iframe srcdoc="<script>parent.pwned=1</script>"></iframe>',
    '<a href="javascript:window.pwned=1">x</a><style>*{display:none}</style>',
    "<form action=//evil.example><button>x</button></form><base href=//evil.example>",
)
ALL = " ".join(PAYLOADS)

# Everything that is in the page and should not be: scripts, pictures and frames of others, handlers, odd links.
FOREIGN = """() => {
  const own = (e, name) => (e.getAttribute(name) || '').startsWith('/static/');
  const bad = [...document.querySelectorAll('script')].filter(e => !own(e, 'src'));
  bad.push(...[...document.querySelectorAll('img')].filter(e => !own(e, 'src')));
  bad.push(...document.querySelectorAll('iframe, object, embed, base, style, svg:not(.chart svg)'));
  bad.push(...[...document.querySelectorAll('form')].filter(e => !(e.getAttribute('action') || '').startsWith('/')));
  bad.push(...[...document.querySelectorAll('a')].filter(e => !/^[/#]/.test(e.getAttribute('href') || '/')));
  const odd = (e, a) => a.name.startsWith('on') || (a.name === 'style' && !e.closest('.tip'));
  bad.push(...[...document.querySelectorAll('*')].filter(e => [...e.attributes].some(a => odd(e, a))));
  return {foreign: bad.map(e => e.outerHTML.slice(0, 80)), pwned: window.pwned ?? null};
}"""


def look(page, url, wait=None):
    go(page, url)
    if wait:
        page.wait_for_selector(wait, state="attached")
    page.wait_for_timeout(150)
    return page.evaluate(FOREIGN)


def visit(running, page):
    """Every page that shows something of a stranger, in every state; what was found there."""
    task = {"id": ALL[:250], "kind": ALL[-250:], "text": "x"}
    made = running.post("/v1/tasks", {"task": task, "eligible": ["model"]})
    decision = made.headers["x-bot-orch-decision-id"]
    running.post("/v1/feedback", {"decision_id": decision, "completed": False, "reason": ALL[-250:], "elapsed_s": 1.0})
    submit(running, ALL)
    ticket = running.get("/v1/queue").json()["tickets"][0]["id"]
    one = f"{running.url}/queue/{ticket}"
    found = [look(page, f"{running.url}/", "#legend li"), look(page, f"{running.url}/decisions/{decision}")]
    found += [look(page, f"{running.url}/decisions"), look(page, f"{running.url}/?agents={PAYLOADS[0]}&sort={ALL}")]
    found += [look(page, f"{running.url}/?from={PAYLOADS[1]}")]
    found += [look(page, f"{running.url}/queue"), look(page, one)]
    running.post(f"/v1/queue/{ticket}/claim")
    found.append(look(page, one))
    running.post(f"/v1/queue/{ticket}/answer", {"text": ALL})
    found += [
        look(page, one),
        look(page, f"{running.url}/queue"),
        look(page, f"{running.url}/login?next={PAYLOADS[1]}"),
    ]
    return found


@pytest.fixture
def hostile(tmp_path):
    running = serve(tmp_path / "log.sqlite", label=ALL)
    yield running
    running.stop()


def test_payloads_do_nothing(hostile, page):
    dialogs = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    found = visit(hostile, page)
    assert len(found) == 11
    assert all(each == {"foreign": [], "pwned": None} for each in found), found
    assert not dialogs


def test_control_without_escaping_the_check_sees_it_and_the_policy_still_holds(hostile, browser, monkeypatch):
    monkeypatch.setattr(pages, "escape", str)
    page = browser.new_context().new_page()
    found = visit(hostile, page)
    assert sum(bool(each["foreign"]) for each in found) >= 6, "unescaped output went unseen"
    assert all(each["pwned"] is None for each in found), "the content policy let a script run"
    page.context.close()


def test_control_without_escaping_nor_policy_it_runs(hostile, browser, monkeypatch):
    monkeypatch.setattr(pages, "escape", str)
    monkeypatch.setattr(pages, "CONTENT_POLICY", "default-src * 'unsafe-inline'")
    page = browser.new_context().new_page()
    assert any(each["pwned"] for each in visit(hostile, page)), "these payloads prove nothing"
    page.context.close()

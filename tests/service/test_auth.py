"""Who may do what: every route with every scope."""

import hashlib
import logging

import msgspec
import pytest
from service_running import BASE, service_limits

from bot_orch.errors import InvalidInputError
from bot_orch.service.api.routes import ROUTES
from bot_orch.service.config import SCOPES, parse_config
from bot_orch.service.server import make_server
from bot_orch.service.web.auth import Gate, is_loopback

TOKENS = {scope: f"secret-token-of-{scope}" for scope in SCOPES}
SECURED = (
    BASE
    + "tokens:\n"
    + "".join(
        f"  - {{{{name: {scope}, scopes: [{scope}], "
        + (
            f"sha256: {hashlib.sha256(TOKENS[scope].encode()).hexdigest()}}}}}\n"
            if scope == "queue"
            else f"env: TOKEN_{scope.upper()}}}}}\n"
        )
        for scope in SCOPES
    )
)
ENVIRONMENT = {f"TOKEN_{scope.upper()}": token for scope, token in TOKENS.items()}


@pytest.fixture(scope="module", autouse=True)
def any_number_of_logins():
    with pytest.MonkeyPatch.context() as monkeypatch:
        service_limits(monkeypatch, failed_logins=0)
        yield


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    from service_running import Running

    path = tmp_path_factory.mktemp("secured") / "log.sqlite"
    config = parse_config(SECURED.format(database=path, port=0), ENVIRONMENT)
    running = Running(config, environment=ENVIRONMENT)
    yield running
    running.stop()


def ask(service, route, headers):
    body = b"{}" if route.body is not None else None
    return service.request(route.method, route.path.replace("{id}", "x"), raw=body, headers=headers)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_route_with_every_scope(secured, route):
    for scope, token in TOKENS.items():
        answer = ask(secured, route, {"Authorization": f"Bearer {token}"})
        allowed = route.scope in (None, "any") or scope in (route.scope, "admin")
        assert (answer.status not in (401, 403)) == allowed, f"{scope}: {answer}"
        assert answer.status < 500
    wrong = ("Bearer wrong", "Basic abc", f"Bearer{TOKENS['admin']}", "Bearer ", f"bearer {TOKENS['admin'][:-1]}")
    for header in ({}, *({"Authorization": each} for each in wrong)):
        answer = ask(secured, route, header)
        assert answer.status == (200 if route.scope is None else 401)
        if route.scope is not None:
            assert answer.headers["www-authenticate"] == "Bearer"


def test_there_are_routes_for_every_scope_but_the_queue():
    assert {route.scope for route in ROUTES} == {None, "any", "decide", "feedback", "metrics", "admin"}


def test_a_token_is_checked_before_the_body(secured):
    answer = secured.request("POST", "/v1/decisions", raw=b"not json")
    assert answer.status == 401


def test_keys_of_different_callers_do_not_meet(secured):
    seen = set()
    for scope in ("decide", "admin"):
        headers = {"Authorization": f"Bearer {TOKENS[scope]}", "Idempotency-Key": "same"}
        seen.add(secured.post("/v1/decisions", {"task": {"id": scope}}, headers=headers).json()["id"])
    assert len(seen) == 2


TWO = SECURED + "  - {{name: other, scopes: [decide, feedback], env: TOKEN_OTHER}}\n"
OTHER = {**ENVIRONMENT, "TOKEN_OTHER": "secret-token-of-another"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    from service_running import Running

    path = tmp_path_factory.mktemp("shared") / "log.sqlite"
    running = Running(parse_config(TWO.format(database=path, port=0), OTHER), environment=OTHER)
    yield running
    running.stop()


def as_(token):
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize("how", ["decision", "chat", "task"])
def test_a_decision_is_shown_to_its_token_and_to_an_admin(shared, how):
    own, other, admin = as_(TOKENS["decide"]), as_(OTHER["TOKEN_OTHER"]), as_(TOKENS["admin"])
    chat = {"model": "auto", "messages": [{"role": "user", "content": "x"}]}
    path, body = {
        "decision": ("/v1/decisions", {}),
        "chat": ("/v1/chat/completions", chat),
        "task": ("/v1/tasks", {"task": {"text": "private"}}),
    }[how]
    answer = shared.post(path, body, headers=own)
    decision_id = answer.headers.get("x-bot-orch-decision-id") or answer.json()["id"]
    shown = {"decision": f"/v1/decisions/{decision_id}"}
    if how == "task":
        shown["task"] = f"/v1/tasks/{answer.json()['id']}"
    for place in shown.values():
        assert shared.get(place, headers=own).status == 200 and shared.get(place, headers=admin).status == 200
        refused = shared.get(place, headers=other)
        assert refused.status == 404, "not even whether it exists"
        assert refused.body == shared.get(place[:-6] + "000000", headers=other).body
    report = {"decision_id": decision_id, "reward": 0.5}
    assert shared.post("/v1/feedback", report, headers=other).status == 200, "another may judge it"


def test_without_tokens_only_this_machine(tmp_path):
    text = BASE.replace("host: 127.0.0.1", "host: 0.0.0.0").format(database=tmp_path / "x", port=0)
    with pytest.raises(InvalidInputError, match="no tokens"):
        make_server(parse_config(text))


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "localhost.evil.example"},
        {"Host": "127.0.0.1:1", "Origin": "http://evil.example"},
        {"Host": "localhost", "Origin": "null"},
        {"Host": "localhost", "Origin": "http://127.evil.example"},
        {"Host": "localhost", "Origin": "http://[::1]evil.example"},
        {"Host": "localhost:evil.example"},
        {"Host": "localhost@evil.example"},
        {"Host": "[::1].evil.example"},
        {"Host": "[::1]evil.example:80"},
        {"Host": "[127.0.0.1]"},
        {"Host": "[localhost]"},
        {"Host": ""},
    ],
)
def test_a_web_page_cannot_reach_an_open_service(service, headers):
    assert service.get("/v1/models", headers=headers).status == 403


FOREIGN = (
    "127.evil.example",
    "127.0.0.1.evil.example",
    "127.0.0.1.",
    "127.",
    "127.1",
    "127.0.1",
    "127.0.0.256",
    "127.0.0.01",
    "0127.0.0.1",
    "0x7f.0.0.1",
    "0x7f000001",
    "2130706433",
    "localhost.",
    "localhost.evil.example",
    "localhost.localdomain",
    "sub.localhost",
    "",
    ".",
    "0.0.0.0",  # noqa: S104
    "::",
    "::2",
    "::1%lo",
    "::127.0.0.1",
    "::ffff:128.0.0.1",
    "64:ff9b::127.0.0.1",
    "2002:7f00:1::",
    "\u0661\u0662\u0667.0.0.1",
)
HERE = ("localhost", "LOCALHOST", "127.0.0.1", "127.0.0.2", "127.255.255.254", "::1", "0:0:0:0:0:0:0:1")


@pytest.mark.parametrize("host", FOREIGN)
def test_what_only_looks_like_this_machine_is_not(tmp_path, service, host):
    assert not is_loopback(host)
    config = parse_config(BASE.format(database=tmp_path / "x", port=0))
    config = msgspec.structs.replace(config, listen=msgspec.structs.replace(config.listen, host=host))
    with pytest.raises(InvalidInputError, match="no tokens"):
        make_server(config)
    if host.isascii():
        written = f"[{host}]:80" if ":" in host else f"{host}:80"
        for headers in ({"Host": written}, {"Host": "localhost", "Origin": f"http://{written}"}):
            assert service.get("/v1/models", headers=headers).status in (400, 403), headers


@pytest.mark.parametrize("host", [*HERE, "::ffff:127.0.0.1", "::FFFF:7f00:1"])
@pytest.mark.parametrize("port", ["", ":", ":80", ":65535"])
def test_this_machine_is_known_by_all_its_names(service, host, port):
    assert is_loopback(host)
    written = f"[{host}]{port}" if ":" in host else host + port
    for headers in ({"Host": written}, {"Host": "localhost", "Origin": f"http://{written}"}):
        assert service.get("/v1/models", headers=headers).status == 200, headers


@pytest.fixture
def refusals():
    """Fields of the lines about refused logins."""
    seen, logger = [], logging.getLogger("bot_orch.login")
    handler = logging.Handler()
    handler.emit = lambda record: seen.append(record.fields)
    logger.addHandler(handler)
    yield seen
    logger.removeHandler(handler)


def test_refused_logins_leave_a_line_without_secrets(start, refusals):
    secured = start(SECURED, environment=ENVIRONMENT)  # lines are summed up per server and address
    for header in ("Bearer a-wrong-token", "Basic c2VjcmV0", "", f"Bearer {TOKENS['feedback']}"):
        secured.post("/v1/decisions", headers={"Authorization": header} if header else {})
    assert [line["why"] for line in refusals] == ["unknown token", "no token", "no token", "missing scope"]
    assert all(line["address"] == "127.0.0.1" and line["route"] == "/v1/decisions" for line in refusals)
    assert refusals[3]["token"] == "feedback"  # noqa: S105
    assert not any(secret in repr(refusals) for secret in ("a-wrong-token", "c2VjcmV0", *TOKENS.values()))


def test_a_refused_sign_in_leaves_a_line(start, refusals):
    secured = start(SECURED, environment=ENVIRONMENT)  # lines are summed up per server and address
    origin = {"Origin": f"http://127.0.0.1:{secured.port}"}
    assert secured.request("POST", "/login", raw=b"token=guess-guess", headers=origin).status == 401
    assert [line["route"] for line in refusals] == ["/login"] and "guess-guess" not in repr(refusals)


def test_an_address_that_guesses_must_wait_and_callers_in_use_go_on(start, refusals, monkeypatch):
    service_limits(monkeypatch, failed_logins=5)
    service = start(SECURED, environment=ENVIRONMENT)
    known, other = ({"Authorization": f"Bearer {TOKENS[scope]}"} for scope in ("decide", "admin"))
    assert service.get("/v1/models", headers=known).status == 200
    guesses = [service.get("/v1/models", headers={"Authorization": f"Bearer guess-{n}"}) for n in range(8)]
    assert [each.status for each in guesses] == [401] * 5 + [429] * 3
    assert 1 <= int(guesses[-1].headers["retry-after"]) <= 12
    assert guesses[-1].json()["error"]["code"] == "too_many_logins"
    assert service.get("/v1/models", headers=known).status == 200, "a token in use goes on"
    assert service.get("/v1/models", headers=other).status == 429, "a right guess looks like a wrong one"
    assert [line["why"] for line in refusals][-1] == "too many failed logins"


def test_the_pause_ends_and_memory_is_bounded():
    from bot_orch.service.problems import Problem
    from bot_orch.service.web import auth

    now = [0.0]
    kept = auth.Logins(3, clock=lambda: now[0])
    for _ in range(3):
        kept.check("a", "x", "/")
        kept.failed("a", "/")
    with pytest.raises(Problem) as refused:
        kept.check("a", "x", "/")
    assert refused.value.headers["retry-after"] == "20"
    kept.check("b", "x", "/")
    now[0] = 20.0
    kept.check("a", "x", "/")
    for number in range(3 * auth._ADDRESSES):
        kept.failed(f"10.{number}", "/")
        kept.succeeded(f"10.{number}", "x")
    assert max(len(kept._failures), len(kept._lines), len(kept._known)) <= auth._ADDRESSES


def test_a_flood_of_refusals_is_summed_up(refusals):
    from bot_orch.service.web import auth

    now = [0.0]
    kept = auth.Logins(0, clock=lambda: now[0])
    for _ in range(500):
        kept.refused("a", "/", "no token")
    assert len(refusals) == auth._LINES
    now[0] = 1.0
    kept.refused("a", "/", "no token")
    assert refusals[-1]["not_logged"] == 500 - auth._LINES


@pytest.mark.parametrize("name", ["Authorization", "Host", "Origin", "Cookie", "Idempotency-Key"])
def test_a_header_that_decides_is_sent_once(secured, name):
    import http.client

    value = {"Authorization": f"Bearer {TOKENS['admin']}", "Host": "localhost"}.get(name, "http://localhost")
    connection = http.client.HTTPConnection("127.0.0.1", secured.port, timeout=60)
    connection.putrequest("GET", "/v1/models", skip_host=True)
    for each in ("Host", "Authorization"):
        if each != name:
            connection.putheader(each, {"Host": "localhost"}.get(each, f"Bearer {TOKENS['admin']}"))
    connection.putheader(name, "Bearer other" if name == "Authorization" else value)
    connection.putheader(name, value)
    connection.endheaders()
    response = connection.getresponse()
    said = response.read()
    connection.close()
    assert response.status == 400, said
    # the HTTP parser refuses some of them itself
    assert b"repeated_header" in said or name in ("Host",)


def test_tokens_are_long_enough_and_there():
    from bot_orch.service.config import TokenConfig

    token = TokenConfig(name="a", scopes=("decide",), env="A")
    for environment, problem in (({}, "environment variable A"), ({"A": "short"}, "is short")):
        with pytest.raises(InvalidInputError, match=problem):
            Gate((token,), environment)
    assert "x" * 20 not in repr(vars(Gate((token,), {"A": "x" * 20})))

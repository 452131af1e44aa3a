"""Who may do what: every route with every scope."""

import hashlib

import pytest
from service_running import BASE

from bot_orch.config import SCOPES, parse_config
from bot_orch.errors import InvalidInputError
from bot_orch.service.auth import Gate
from bot_orch.service.routes import ROUTES
from bot_orch.service.server import make_server

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
        allowed = route.scope is None or scope in (route.scope, "admin")
        assert (answer.status not in (401, 403)) == allowed, f"{scope}: {answer}"
        assert answer.status < 500
    wrong = ("Bearer wrong", "Basic abc", f"Bearer{TOKENS['admin']}", "Bearer ", f"bearer {TOKENS['admin'][:-1]}")
    for header in ({}, *({"Authorization": each} for each in wrong)):
        answer = ask(secured, route, header)
        assert answer.status == (200 if route.scope is None else 401)
        if route.scope is not None:
            assert answer.headers["www-authenticate"] == "Bearer"


def test_there_are_routes_for_every_scope_but_the_queue():
    assert {route.scope for route in ROUTES} == {None, "decide", "feedback", "admin"}


def test_a_token_is_checked_before_the_body(secured):
    answer = secured.request("POST", "/v1/decisions", raw=b"not json")
    assert answer.status == 401


def test_keys_of_different_callers_do_not_meet(secured):
    seen = set()
    for scope in ("decide", "admin"):
        headers = {"Authorization": f"Bearer {TOKENS[scope]}", "Idempotency-Key": "same"}
        seen.add(secured.post("/v1/decisions", {"task": {"id": scope}}, headers=headers).json()["id"])
    assert len(seen) == 2


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
    ],
)
def test_a_web_page_cannot_reach_an_open_service(service, headers):
    assert service.get("/v1/models", headers=headers).status == 403


def test_tokens_are_long_enough_and_there():
    from bot_orch.config import TokenConfig

    token = TokenConfig(name="a", scopes=("decide",), env="A")
    for environment, problem in (({}, "environment variable A"), ({"A": "short"}, "is short")):
        with pytest.raises(InvalidInputError, match=problem):
            Gate((token,), environment)
    assert "x" * 20 not in repr(vars(Gate((token,), {"A": "x" * 20})))

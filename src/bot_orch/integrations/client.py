"""A typed client of the service, synchronous and asynchronous, that repeats a request without repeating its effect.

Every request that changes something carries a key, made once per call, so that a retry after a lost answer finds the
first effect instead of making a second one.
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import msgspec

from bot_orch.errors import BotOrchError, MissingExtraError
from bot_orch.service.api.bodies import (
    AgentView,
    DecisionView,
    Explanation,
    FeedbackView,
    SessionView,
    StateView,
    TaskView,
)

try:
    import httpx
except ImportError as _error:  # pragma: no cover
    raise MissingExtraError("the client", "client") from _error

__all__ = ["AsyncClient", "Client", "ServiceError", "UnreachableError"]

_RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})
_LONGEST_WAIT_S = 30.0
T = TypeVar("T")
P = ParamSpec("P")
Steps = Generator["httpx.Request | float", "httpx.Response | httpx.TransportError | None", T]


class ServiceError(BotOrchError):
    """The service refused a request: ``status``, ``code`` and ``param`` as in its answer."""

    def __init__(self, answer: httpx.Response) -> None:
        try:
            error = answer.json()["error"]
        except (ValueError, KeyError, TypeError):
            error = {"message": answer.text[:200]}
        super().__init__(f"{answer.status_code}: {error.get('message')}")
        self.status = answer.status_code
        self.code: str | None = error.get("code")
        self.param: str | None = error.get("param")


class UnreachableError(BotOrchError):
    """No answer after all retries; it is unknown whether the request had an effect. Calling again is safe."""


class _Requests:
    """Request building and answer parsing shared by both clients, as steps that a driver executes.

    ``transport`` is one of httpx, for proxies and tests.
    """

    _http_class: Any

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8080",
        *,
        token: str | None = None,
        timeout_s: float = 30.0,
        retries: int = 3,
        wait_s: float = 0.2,
        transport: Any = None,
    ) -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = self._http_class(base_url=base_url, headers=headers, timeout=timeout_s, transport=transport)
        self._retries, self._wait_s = retries, wait_s

    def _send(self, method: str, path: str, *, body: Any = None, key: str | None = None, answer: type[T]) -> Steps[T]:
        headers = {} if key is None else {"Idempotency-Key": key}
        content = None if body is None else msgspec.json.encode(body)
        for attempt in range(self._retries + 1):
            request = self._http.build_request(method, path, content=content, headers=headers)
            got = yield request
            if isinstance(got, httpx.Response) and got.is_success:
                return msgspec.json.decode(got.content, type=answer)
            if isinstance(got, httpx.Response) and (got.status_code not in _RETRIED or attempt == self._retries):
                raise ServiceError(got)
            if attempt < self._retries:
                yield self._pause(attempt, got)
        message = f"{request.url}: no answer after {self._retries + 1} requests ({got}); call again when it is back"
        raise UnreachableError(message) from (got if isinstance(got, Exception) else None)

    def _pause(self, attempt: int, got: Any) -> float:
        wait = got.headers.get("retry-after", "") if isinstance(got, httpx.Response) else ""
        if wait.replace(".", "", 1).isdigit():
            return min(float(wait), _LONGEST_WAIT_S)
        return min(self._wait_s * 2.0**attempt, _LONGEST_WAIT_S) * random.uniform(0.5, 1.0)  # noqa: S311

    def _decide(
        self, task: Mapping[str, Any], eligible: Sequence[str] | None, session: str | None, **steps: Any
    ) -> Steps[DecisionView]:
        body = {"task": task, "eligible": eligible, "session": session, **steps}
        return self._send("POST", "/v1/decisions", body=_without_none(body), key=uuid.uuid4().hex, answer=DecisionView)

    def _observe(self, fields: Mapping[str, Any]) -> Steps[FeedbackView]:
        body = {"id": uuid.uuid4().hex, **fields}
        return self._send("POST", "/v1/feedback", body=_without_none(body), answer=FeedbackView)

    def _credit(self, session: str, reward: float, last: int | None) -> Steps[SessionView]:
        body = {"id": uuid.uuid4().hex, "session": session, "reward": reward, "last": last}
        return self._send("POST", "/v1/feedback", body=_without_none(body), answer=SessionView)

    def _queue(self) -> Steps[list[dict[str, Any]]]:
        found = yield from self._send("GET", "/v1/queue", answer=dict[str, Any])
        return list(found["tickets"])

    def _answer(self, ticket_id: str, text: str) -> Steps[dict[str, Any]]:
        yield from self._send("POST", f"/v1/queue/{ticket_id}/claim", body={}, answer=dict[str, Any])
        body = {"action": "answer", "text": text}
        return (yield from self._send("POST", f"/v1/queue/{ticket_id}/answer", body=body, answer=dict[str, Any]))

    def _do(self, task: Mapping[str, Any], fields: Mapping[str, Any]) -> Steps[TaskView]:
        body = {"task": task, **fields}
        return self._send("POST", "/v1/tasks", body=_without_none(body), key=uuid.uuid4().hex, answer=TaskView)


def _without_none(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if value is not None}


class Client(_Requests):
    """A client of a service; safe to use from several threads.

    >>> with Client("http://127.0.0.1:8080", token="...") as client:  # doctest: +SKIP
    ...     decision = client.decide({"kind": "refund", "text": "Where is my money?"})
    ...     client.observe(decision.id, reward=0.8, elapsed_s=2.5)
    """

    _http_class = httpx.Client

    def _carry_out(self, steps: Steps[T]) -> T:
        got: Any = None
        while True:
            try:
                step = steps.send(got)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            if isinstance(step, float):
                time.sleep(step)
                got = None
                continue
            try:
                got = self._http.send(step)
            except httpx.TransportError as error:
                got = error

    def decide(
        self,
        task: Mapping[str, Any] | None = None,
        *,
        eligible: Sequence[str] | None = None,
        session: str | None = None,
        attempts: int = 1,
        seen: Sequence[Mapping[str, Any]] = (),
    ) -> DecisionView:
        """Ask for an agent; ``task`` has the fields ``id, kind, text, features, reference, profiles, claims``.

        ``features`` are a list of numbers, or numbers and texts by name. With ``attempts`` look at the answer and
        decide again; ``seen`` holds ``decision_id, check, signal, label, key, cost_usd`` of the answers so far. The
        ``action`` is to ``ask`` the agent or to ``accept`` its answer.
        """
        return self._carry_out(self._decide(task or {}, eligible, session, attempts=attempts, seen=list(seen)))

    def observe(self, /, decision_id: str, **report: Any) -> FeedbackView:
        """Report an outcome: ``reward, elapsed_s, completed, reason, output, cost_usd, audit, id``."""
        return self._carry_out(self._observe({"decision_id": decision_id, **report}))

    def feedback(self, /, completion_id: str, **report: Any) -> FeedbackView:
        """Report on a chat completion by its id."""
        return self._carry_out(self._observe({"completion_id": completion_id, **report}))

    def credit(self, session: str, reward: float, *, last: int | None = None) -> SessionView:
        """Credit a reward to the decisions of a session."""
        return self._carry_out(self._credit(session, reward, last))

    def do(self, /, task: Mapping[str, Any], **fields: Any) -> TaskView:
        """Have a task done: ``eligible, session, params, deadline_s, background``."""
        return self._carry_out(self._do(task, fields))

    def task(self, task_id: str) -> TaskView:
        """A round that was started with ``background``."""
        return self._carry_out(self._send("GET", f"/v1/tasks/{task_id}", answer=TaskView))

    def explain(self, decision_id: str) -> Explanation:
        """Why a decision was made, and its outcome."""
        return self._carry_out(self._send("GET", f"/v1/decisions/{decision_id}", answer=Explanation))

    def agents(self) -> list[AgentView]:
        """Agents and their circuits."""
        return self._carry_out(self._send("GET", "/v1/agents", answer=list[AgentView]))

    def state(self) -> StateView:
        """The state of the log; requires the scope ``admin``."""
        return self._carry_out(self._send("GET", "/v1/admin/state", answer=StateView))

    def queue(self) -> list[dict[str, Any]]:
        """Tickets that wait for people; needs the scope ``queue``."""
        return self._carry_out(self._queue())

    def answer(self, ticket_id: str, text: str) -> dict[str, Any]:
        """Claim a ticket and answer it."""
        return self._carry_out(self._answer(ticket_id, text))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _awaited(method: Callable[Concatenate[Client, P], T]) -> Callable[Concatenate[AsyncClient, P], Awaitable[T]]:
    """A method of :class:`Client` as one of :class:`AsyncClient`, whose requests are awaited."""
    return cast("Callable[Concatenate[AsyncClient, P], Awaitable[T]]", method)


class AsyncClient(_Requests):
    """:class:`Client` for asyncio: its methods, awaited."""

    _http_class = httpx.AsyncClient

    async def _carry_out(self, steps: Steps[T]) -> T:
        got: Any = None
        while True:
            try:
                step = steps.send(got)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            if isinstance(step, float):
                await asyncio.sleep(step)
                got = None
                continue
            try:
                got = await self._http.send(step)
            except httpx.TransportError as error:
                got = error

    decide = _awaited(Client.decide)
    observe = _awaited(Client.observe)
    feedback = _awaited(Client.feedback)
    credit = _awaited(Client.credit)
    do = _awaited(Client.do)
    task = _awaited(Client.task)
    explain = _awaited(Client.explain)
    agents = _awaited(Client.agents)
    state = _awaited(Client.state)
    queue = _awaited(Client.queue)
    answer = _awaited(Client.answer)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

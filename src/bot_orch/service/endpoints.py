"""What endpoints of models say of themselves: whether they answer, accept the key, and list the model."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field

import msgspec

from bot_orch.agents.base import CallFailure
from bot_orch.agents.kinds.anthropic import VERSION
from bot_orch.service.config import AgentConfig, Config

_TIMEOUT_S = 10.0
_MOST_BYTES = 4_000_000
_HTTP = ("openai", "anthropic")


@dataclass(frozen=True, slots=True)
class EndpointProbe:
    """An endpoint to query for its models; ``setting`` is the setting that holds its key."""

    name: str
    base_url: str
    model: str
    _: KW_ONLY
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    has_key: bool = False
    setting: str = ""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The answer: status and models, or the problem."""

    asked: EndpointProbe
    status: int
    elapsed_s: float
    _: KW_ONLY
    problem: str = ""
    models: tuple[str, ...] | None = None


def endpoints_in(config: Config) -> Iterator[EndpointProbe]:
    """Every endpoint of agents, and of models that judge without being routed to."""
    for index, agent in enumerate(config.agents):
        yield from _of(agent, f"config.agents[{index}]")
    for index, judge in enumerate(config.judges):
        own = judge.settings.get("agent")
        if isinstance(own, dict):
            agent = msgspec.convert({"id": judge.name, **own}, AgentConfig)
            yield from _of(agent, f"config.judges[{index}].settings.agent")


def _of(agent: AgentConfig, where: str) -> Iterator[EndpointProbe]:
    if agent.kind not in _HTTP:
        return
    places = [(agent.base_url, agent.api_key, agent.model, f"{where}.api_key")] if agent.base_url else []
    places += [
        (each.base_url, each.api_key or agent.api_key, each.model or agent.model, f"{where}.endpoints[{index}].api_key")
        for index, each in enumerate(agent.endpoints)
    ]
    for base_url, key, model, setting in places:
        headers = {**agent.headers, **_key_headers(agent.kind, key)}
        yield EndpointProbe(agent.id, base_url, model, headers=headers, has_key=bool(key), setting=setting)


def _key_headers(kind: str, key: str) -> dict[str, str]:
    if kind == "anthropic":
        return {"anthropic-version": VERSION, **({"x-api-key": key} if key else {})}
    return {"Authorization": f"Bearer {key}"} if key else {}


def models_url(base_url: str) -> str:
    """The URL at which an endpoint lists its models.

    Examples
    --------
    >>> models_url("https://host/v1/?version=2")
    'https://host/v1/models?version=2'
    """
    base, question, query = base_url.partition("?")
    return f"{base.rstrip('/')}/models{question}{query}"


async def ask_all(endpoints: Sequence[EndpointProbe], *, timeout_s: float = _TIMEOUT_S) -> list[ProbeResult]:
    """Query all endpoints concurrently."""
    return list(await asyncio.gather(*(_ask(each, timeout_s) for each in endpoints)))


async def _ask(endpoint: EndpointProbe, timeout_s: float) -> ProbeResult:
    """GET the models of an endpoint, through the same checked addresses as calls."""
    from bot_orch.agents import connection

    begun = time.monotonic()
    status, problem, models = 0, "", None
    try:
        async with asyncio.timeout(timeout_s), connection.open_session() as session:
            with connection.translated():
                url = models_url(endpoint.base_url)
                async with session.get(url, headers=dict(endpoint.headers), allow_redirects=False) as response:
                    status = response.status
                    data = b"".join([piece async for piece in connection.body(response, _MOST_BYTES)])
                    models = _models(data) if status == 200 else None
    except TimeoutError:
        problem = f"no answer in {timeout_s:g} s"
    except CallFailure as failure:
        problem = str(failure).partition(": ")[2] if not status else ""
    return ProbeResult(endpoint, status, time.monotonic() - begun, problem=problem, models=models)


def _models(data: bytes) -> tuple[str, ...] | None:
    """The names in a list of models, newest first; ``None`` for any other document."""
    try:
        found = [each for each in json.loads(data)["data"] if isinstance(each["id"], str)]
        found.sort(key=lambda each: -float(each.get("created") or 0))  # stable: as listed where there is no time
        return tuple(each["id"] for each in found)
    except (ValueError, KeyError, TypeError):
        return None

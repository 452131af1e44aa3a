"""Endpoints that the environment names, and the models to route between."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from urllib.parse import urlsplit

from bot_orch.agents.address import check_url
from bot_orch.errors import InvalidInputError
from bot_orch.service.endpoints import EndpointProbe, ProbeResult, ask_all

_ASK_S = 10.0
_OLLAMA = "127.0.0.1:11434"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}")
_MOST_MODELS = 3
_NO_CHAT = re.compile(
    r"embed|whisper|tts|dall-e|audio|realtime|image|moderation|transcribe|search|instruct-|davinci|babbage|codex"
    r"|computer-use|sora|rerank|guard",
    re.IGNORECASE,
)
_SMALL = re.compile(r"mini|nano|haiku|small|flash|lite|tiny|(?<![0-9])[1-9]b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class EndpointFound:
    """An endpoint: where it is, the variable with its key, the models to use."""

    name: str
    kind: str
    base_url: str
    _: KW_ONLY
    key: str = ""
    models: tuple[str, ...] = ()
    source: str = ""
    named: bool = False  # by --endpoint: its only model is an agent of that name


@dataclass(frozen=True, slots=True)
class Search:
    """Usable endpoints, and those left out with the reasons."""

    found: tuple[EndpointFound, ...]
    left_out: tuple[str, ...] = ()


def search(environment: Mapping[str, str], given: Sequence[str] = (), *, offline: bool = False) -> Search:
    """Find endpoints from environment variables and ``name=url[,model[,key variable]]``, and query their models.

    ``offline``: an endpoint that does not answer is used nevertheless if its model is named.
    """
    candidates = [*(_given(each, environment) for each in given), *_named(environment)]
    names = [each.name for each in candidates]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidInputError("--endpoint", f"{twice!r} is there twice", "choose another name")
    said = asyncio.run(ask_all([_probe(each, environment) for each in candidates], timeout_s=_ASK_S))
    found, left_out = [], []
    for each, answer in zip(candidates, said, strict=True):
        models, problem = (each.models, "") if offline and answer.problem and each.models else _usable(each, answer)
        if problem:
            if offline and each.named and not each.models:
                problem += f"; with its model it is written all the same: --endpoint {each.name}=url,model"
            left_out.append(f"{each.source} ({each.base_url}): {problem}")
        else:
            found.append(replace(each, models=models))
    return Search(tuple(found), tuple(left_out))


def _named(env: Mapping[str, str]) -> Iterator[EndpointFound]:
    """Endpoints in the environment variables of common clients."""
    if env.get("OPENAI_API_KEY") or env.get("OPENAI_BASE_URL"):
        key = "OPENAI_API_KEY" if env.get("OPENAI_API_KEY") else ""
        url = env.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
        source = "OPENAI_BASE_URL" if env.get("OPENAI_BASE_URL") else key
        yield EndpointFound("openai", "openai", url, key=key, models=_only(env, "OPENAI_MODEL"), source=source)
    if env.get("ANTHROPIC_API_KEY"):
        url = (env.get("ANTHROPIC_BASE_URL") or "https://api.anthropic.com").rstrip("/").removesuffix("/v1") + "/v1"
        models, key = _only(env, "ANTHROPIC_MODEL"), "ANTHROPIC_API_KEY"
        yield EndpointFound("anthropic", "anthropic", url, key=key, models=models, source=key)
    if env.get("AZURE_OPENAI_API_KEY") and env.get("AZURE_OPENAI_ENDPOINT"):
        url = env["AZURE_OPENAI_ENDPOINT"].rstrip("/").removesuffix("/openai/v1") + "/openai/v1"
        models, key = _only(env, "AZURE_OPENAI_DEPLOYMENT"), "AZURE_OPENAI_API_KEY"
        yield EndpointFound("azure", "openai", url, key=key, models=models, source="AZURE_OPENAI_ENDPOINT")
    if env.get("OLLAMA_HOST") or _listens(_OLLAMA):
        url, models = _ollama_url(env.get("OLLAMA_HOST") or _OLLAMA), _only(env, "OLLAMA_MODEL")
        yield EndpointFound("ollama", "openai", url, models=models, source="Ollama")


def _only(env: Mapping[str, str], name: str) -> tuple[str, ...]:
    return (env[name],) if env.get(name) else ()


def _ollama_url(host: str) -> str:
    """Complete a host from its variable, which may lack scheme and port, and may be a listen address.

    Examples
    --------
    >>> _ollama_url("0.0.0.0")
    'http://127.0.0.1:11434/v1'
    """
    try:
        parts = urlsplit(host if "://" in host else f"http://{host}")
        name, port = parts.hostname or "", parts.port or 11434
    except ValueError as error:
        raise InvalidInputError("OLLAMA_HOST", f"is {host} ({error})", "write host:port") from None
    name = "127.0.0.1" if name in ("", "0.0.0.0", "::") else f"[{name}]" if ":" in name else name  # noqa: S104
    return f"{parts.scheme}://{name}:{port}/v1"


def _listens(address: str) -> bool:
    host, _, port = address.partition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=0.3):
            return True
    except OSError:
        return False


def _given(text: str, env: Mapping[str, str]) -> EndpointFound:
    """An endpoint of the command line; its key is in NAME_API_KEY unless a variable is named."""
    name, sign, rest = text.partition("=")
    url, _, more = rest.partition(",")
    model, _, key = more.partition(",")
    if not sign or not url or not _NAME.fullmatch(name):
        raise InvalidInputError("--endpoint", f"is {text}", "write name=https://host/v1[,model[,VARIABLE_OF_THE_KEY]]")
    check_url(url, field="--endpoint")
    if key and not env.get(key):
        raise InvalidInputError("--endpoint", f"names the variable {key}, which is not set", f"set {key}")
    usual = f"{name.upper().replace('-', '_')}_API_KEY"
    models = (model,) if model else ()
    key = key or (usual if env.get(usual) else "")
    return EndpointFound(name, "openai", url, key=key, models=models, source=f"--endpoint {name}", named=True)


def _probe(each: EndpointFound, env: Mapping[str, str]) -> EndpointProbe:
    check_url(each.base_url, field=each.source)
    key = env.get(each.key, "") if each.key else ""
    bearer = {"Authorization": f"Bearer {key}"} if key else {}
    headers = {"x-api-key": key, "anthropic-version": "2023-06-01"} if each.kind == "anthropic" else bearer
    model = each.models[0] if each.models else ""
    return EndpointProbe(each.name, each.base_url, model, headers=headers, has_key=bool(key))


def _usable(each: EndpointFound, said: ProbeResult) -> tuple[tuple[str, ...], str]:
    """The models to use, or why there are none."""
    if said.problem:
        return (), f"cannot be reached, {said.problem}"
    if said.status in (401, 403):
        return (), f"refuses the key in {each.key or 'no variable'}"
    if said.status >= 500:
        return (), f"answers with status {said.status}"
    if each.name == "azure" and not each.models:
        return (), "set AZURE_OPENAI_DEPLOYMENT to the name of a deployment"
    models = each.models or chosen(said.models or ())
    return models, "" if models else "lists no models; name one with --endpoint name=url,model"


def chosen(models: Sequence[str]) -> tuple[str, ...]:
    """Up to three models of a list, newest first: all if there are few, else a small one and a large one.

    Examples
    --------
    >>> chosen(["big-5", "embed-5", "big-5-mini", "big-4", "big-4-mini"])
    ('big-5-mini', 'big-5')
    """
    chat = [each for each in models if not _NO_CHAT.search(each)]
    if len(chat) <= _MOST_MODELS:
        return tuple(chat)
    small = [each for each in chat if _SMALL.search(each)]
    large = [each for each in chat if not _SMALL.search(each)]
    return (small[0], large[0]) if small and large else tuple(chat[:2])

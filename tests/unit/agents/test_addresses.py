"""Which addresses an agent may have, and that the check cannot be walked around."""

from __future__ import annotations

import asyncio
import socket

import pytest
from fault_proxy import FaultServer

from bot_orch.agents import CallFailure, CallRequest, Ending, Guard, OpenAIRunner, OpenAISettings, Retry
from bot_orch.agents.address import check_address, check_url
from bot_orch.agents.connection import PinningResolver
from bot_orch.errors import InvalidInputError

CALLED = [
    "93.184.215.14",
    "2606:2800:21f:cb07:6820:80da:af6b:8b2c",
    "127.0.0.1",
    "10.0.0.1",
    "100.64.0.1",
    "::1",
    "fd12::1",
]
NEVER = [
    "169.254.169.254",
    "169.254.0.1",
    "::ffff:169.254.169.254",
    "::ffff:a9fe:a9fe",
    "fd00:ec2::254",
    "100.100.100.200",
    "fe80::1",
    "fe80::1%eth0",
    "0.0.0.0",  # noqa: S104
    "::",
    "::ffff:0.0.0.0",
    "224.0.0.1",
    "ff02::1",
]
BAD_URLS = [
    "ftp://example.com/",
    "file:///etc/passwd",
    "gopher://example.com",
    "unix:///run/docker.sock",
    "//example.com/v1",
    "example.com/v1",
    "https://user:key@example.com/v1",
    "https://example.com@127.0.0.1/v1",
    "https://@example.com/",
    "https://example.com:0/",
    "https://example.com:99999/",
    "https://example.com/#x",
    "https://[::1",
    "https://169.254.169.254/",
    "https://[fe80::1%25eth0]/",
    "https://[::ffff:a9fe:a9fe]/",
    "https:///v1",
    "https://exam ple.com/",
    "https://example.com\\@127.0.0.1",
    "http://１２７.0.0.1/v1",
    "https://exam\nple.com/",
    "https://example.com/\r\nHost: x",
    "",
]


@pytest.mark.parametrize("address", CALLED)
def test_public_and_private_addresses_may_be_called(address):
    check_address(address)
    host = f"[{address}]" if ":" in address else address
    assert OpenAISettings(f"http://{host}/v1", "m").url().startswith(f"http://{host}/v1")


@pytest.mark.parametrize("address", NEVER)
def test_some_addresses_are_never_called(address):
    with pytest.raises(CallFailure) as caught:
        check_address(address)
    assert caught.value.ending is Ending.REFUSED_ADDRESS


@pytest.mark.parametrize("url", BAD_URLS)
def test_unusual_urls_are_refused(url):
    with pytest.raises(InvalidInputError):
        check_url(url)


def test_url_keeps_query_and_path():
    settings = OpenAISettings("https://api.example.com/openai/v1/?api-version=1", "m")
    assert settings.url() == "https://api.example.com/openai/v1/chat/completions?api-version=1"


class Rebinding:
    """A resolver whose answer changes from one question to the next."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), 0

    async def __call__(self, host, port, family):
        self.asked += 1
        found = self.answers[min(self.asked, len(self.answers)) - 1]
        return [(socket.AF_INET6 if ":" in address else socket.AF_INET, address) for address in found]


def test_connection_goes_to_the_checked_address_only():
    async def scenario():
        lookup = Rebinding(["93.184.215.14"], ["169.254.169.254"])
        resolver = PinningResolver(lookup)
        assert [entry["host"] for entry in await resolver.resolve("agent.example", 443)] == ["93.184.215.14"]
        with pytest.raises(CallFailure) as caught:
            await resolver.resolve("agent.example", 443)
        assert caught.value.ending is Ending.REFUSED_ADDRESS

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "answer", [["169.254.169.254"], ["fe80::1"], ["127.0.0.1", "169.254.169.254"], ["::ffff:a9fe:1"]]
)
def test_a_name_that_resolves_to_a_forbidden_address_is_refused_at_connect(answer):
    async def scenario():
        async with FaultServer() as server:
            settings = OpenAISettings(server.base_url("ok", "agent.example"), "m")
            guard = Guard("a", OpenAIRunner(settings, lookup=Rebinding(answer)), retry=Retry(tries=1))
            with pytest.raises(CallFailure) as caught:
                await guard.call(CallRequest("r"))
            await guard.close()
            assert caught.value.ending is Ending.REFUSED_ADDRESS
            assert "169" not in str(caught.value)
            assert server.connections == 0

    asyncio.run(scenario())


def test_one_question_per_connection_and_none_for_a_kept_one():
    async def scenario():
        async with FaultServer() as server:
            lookup = Rebinding(["127.0.0.1"], ["169.254.169.254"])
            settings = OpenAISettings(server.base_url("ok", "agent.example"), "m")
            runner = OpenAIRunner(settings, lookup=lookup)
            for number in range(3):
                assert (await runner.call(CallRequest(str(number)))).text == "The answer is 4."
            await runner.close()
            assert (lookup.asked, server.connections, len(server.requests)) == (1, 1, 3)

    asyncio.run(scenario())


def test_name_that_does_not_resolve_is_a_connection_failure():
    async def nowhere(host, port, family):
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    async def scenario():
        runner = OpenAIRunner(OpenAISettings("https://agent.example/v1", "m"), lookup=nowhere)
        with pytest.raises(CallFailure) as caught:
            await runner.call(CallRequest("r"))
        await runner.close()
        assert caught.value.ending is Ending.CONNECTION
        assert not caught.value.started

    asyncio.run(scenario())

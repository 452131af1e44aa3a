"""Plays a scenario: the real service, its own traffic through the gateway, and a report of what moves."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from tempfile import TemporaryDirectory
from typing import Any

from bot_orch.service.build import check
from bot_orch.service.config import Config, parse_config
from bot_orch.service.demo.scenario import Answered, Phase, Played, Scenario, find_scenario
from bot_orch.service.server import make_server, one_reason

__all__ = ["Play", "phase_config", "play_scenario"]

_EVERY_S = 3.0
_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Play:
    """How a scenario is played: requests per phase and per second (0: as fast as they are answered), port, log."""

    name: str
    rounds: int | None = None
    rate: float = 20.0
    _: KW_ONLY
    port: int = 8080
    database: str = ""


def play_scenario(play: Play, say: Callable[[str], None]) -> list[Played]:
    """Serve, send the scenario's traffic, say what happens; what happened in each phase."""
    scenario = find_scenario(play.name)
    with TemporaryDirectory(prefix="bot-orch-demo-") as folder:
        database = play.database or f"{folder}/demo.sqlite"
        configs = [phase_config(phase, database, play.port) for phase in scenario.phases]
        for config in configs:
            check(config)
        return asyncio.run(_Player(play, scenario, configs, say=say).run())


def phase_config(phase: Phase, database: str, port: int) -> Config:
    """The configuration of a phase."""
    return parse_config(
        f"version: 1\ndatabase: {json.dumps(database)}\nlisten: {{port: {port}}}\nlog_level: error\n"
        f"router: {phase.router}\nagents: {phase.agents}\n{phase.more}"
    )


class _Player:
    def __init__(self, play: Play, scenario: Scenario, configs: list[Config], *, say: Callable[[str], None]) -> None:
        self._play, self._scenario, self._configs, self._say = play, scenario, configs, say
        self._now = configs[0]
        self._server = make_server(configs[0], read=lambda: self._now)
        self._number = 0

    async def run(self) -> list[Played]:
        """Play all phases; fewer if the server is stopped."""
        import aiohttp

        serving = asyncio.create_task(self._serve())
        while not (self._server.started and self._runtime.loaded):
            await asyncio.sleep(0.02)
            if serving.done():
                await serving
                return []
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self._say(f"dashboard  http://127.0.0.1:{port}/\n{self._play.name}: {self._scenario.summary}")
        played: list[Played] = []
        try:
            async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
                for phase, config in zip(self._scenario.phases, self._configs, strict=True):
                    self._now = config
                    if played and self._runtime.reload is not None:
                        await self._runtime.reload()
                    for name in phase.drained:
                        await session.post(f"/v1/admin/agents/{name}/drain")
                    self._say(f"-- {phase.title}")
                    played.append(await self._phase(session))
        finally:
            self._server.should_exit = True
            await serving
        self._say(self._scenario.moved(played))
        return played

    @property
    def _runtime(self) -> Any:
        return self._server.config.app.state.runtime

    async def _serve(self) -> None:
        with one_reason(self._server, self._configs[0]):
            await self._server.serve()

    async def _phase(self, session: Any) -> Played:
        loop, rate = asyncio.get_running_loop(), self._play.rate
        answers: list[Answered] = []
        begun = said = loop.time()
        told, spent = 0, self._spent()
        rounds = self._play.rounds or self._scenario.rounds
        for number in range(rounds):
            answers.append(await self._ask(session))
            quarter = not rate and (number + 1) % max(1, rounds // 4) == 0
            if quarter or loop.time() - said >= _EVERY_S:
                self._report(answers[told:], number + 1)
                told, said = len(answers), loop.time()
            if rate:
                await asyncio.sleep(max(0.0, begun + (number + 1) / rate - loop.time()))
        if told < len(answers):
            self._report(answers[told:], len(answers))
        return Played(answers, self._spent() - spent)

    async def _ask(self, session: Any) -> Answered:
        kind, text = self._scenario.prompt(self._number)
        self._number += 1
        body = {"model": "auto", "messages": [{"role": "user", "content": text}]}
        async with session.post("/v1/chat/completions", json=body) as response:
            await response.read()
            agent = response.headers.get("x-bot-orch-agent", "") if response.status == 200 else ""
            return Answered(kind, agent, int(response.headers.get("x-bot-orch-attempts", 1)))

    def _spent(self) -> float:
        runtime = self._runtime
        spent: float = runtime.ledger.spending.within(runtime.writer.now_us(), _DAY_S)
        return spent

    def _report(self, answers: list[Answered], number: int) -> None:
        """Shares of the agents among the last answers, by kind of prompt where there are several."""
        parts = []
        for kind in sorted({each.kind for each in answers}):
            counts = Counter(each.agent or "nobody" for each in answers if each.kind == kind)
            shares = "  ".join(f"{name} {count / counts.total():4.0%}" for name, count in sorted(counts.items()))
            parts.append(f"{kind}: {shares}")
        self._say(f"{number:6d} requests  {'   '.join(parts)}")

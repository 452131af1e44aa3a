"""Versions of a configuration under random interleavings: processes join, die, freeze and refuse during proposals."""

import asyncio
import random

import pytest

from bot_orch.errors import BotOrchError
from bot_orch.eventlog.versions import (
    ADOPTED,
    PATIENCE_S,
    PROPOSED,
    REFUSED,
    ConfigVersion,
    ProcessSeen,
    ProcessSelf,
    ProposalPendingError,
    ProposalVerdict,
    living,
    verdict,
)
from bot_orch.service.configuring.keeper import ConfigKeeper

LEASE_S = 10.0


class MemoryConfigs:
    """The store of :class:`bot_orch.eventlog.versions.ConfigStore` in memory, with a clock of its own."""

    def __init__(self):
        self.now, self.versions, self.seen, self.joined = 0.0, [], {}, 0
        self._add("first", ADOPTED)

    def _add(self, document, status):
        made = ConfigVersion(len(self.versions) + 1, document, document, status)
        self.versions.append((made, self.now))
        return made

    def _all(self):
        return [each._replace(age_s=self.now - at) for each, at in self.versions]

    def current(self):
        return [each for each in self._all() if each.status == ADOPTED][-1]

    def open_one(self):
        return next((each for each in self._all() if each.status == PROPOSED), None)

    def propose(self, document):
        if self.open_one() is not None:
            raise ProposalPendingError("one at a time")
        return self._add(document, PROPOSED)

    def join(self, name, known):
        if self.current().number != known:
            return 0, self.current()
        self.joined += 1
        self.seen[self.joined] = (name, ProcessSelf(known, known), self.now)
        return self.joined, self.current()

    def beat(self, process, said, known, *, name):
        self.seen[process] = (name, said, self.now)
        return [each for each in self._all() if each.number > known and each.status in (ADOPTED, PROPOSED)]

    def settle(self, decide):
        proposal = self.open_one()
        if proposal is None:
            return None
        found = decide(proposal, self.processes())
        if found.status == ADOPTED:
            self.adopted(proposal.number)
        if found.status != PROPOSED:
            self.versions[proposal.number - 1] = (
                proposal._replace(status=found.status, problem=found.problem),
                self.now,
            )
        return found

    def processes(self):
        return [ProcessSeen(id_, name, said, self.now - at) for id_, (name, said, at) in self.seen.items()]

    def leave(self, process):
        self.seen.pop(process, None)

    def abort(self):
        pass


class InlineKeeper(ConfigKeeper):
    """Without a thread; ``hasty`` adopts as soon as one process has answered (the control)."""

    hasty = False

    async def _ask(self, job):
        return job()

    def _now_s(self):
        return self._store.now

    def _judge(self, proposal, processes):
        if self.hasty:
            return ProposalVerdict(ADOPTED)
        return verdict(proposal, processes, self.lease_s)


class Simulated:
    """A process with one router: it takes turns on a log, in which versions take effect."""

    def __init__(self, world, number):
        self.world, self.name, self.cannot = world, f"p{number}", set()
        current = world.store.current()
        self.version, self.ready, self.followed, self.held = current.number, {current.number}, 0, False
        self.frozen = False
        self.keeper = InlineKeeper(world.store, self, current, lease_s=LEASE_S, name=self.name)
        self.keeper.hasty = world.hasty

    @property
    def running(self):
        return self.version

    async def prepare(self, version):
        if version.number in self.cannot:
            raise BotOrchError("needs KEY")
        self.ready.add(version.number)

    def drop(self, number):
        self.ready.discard(number)

    def follow(self):
        for number in self.world.log[self.followed :]:
            if number in self.ready:
                self.version, self.held = number, False
            else:
                self.held = True
        self.followed = len(self.world.log)

    async def install(self, number):
        self.follow()
        logged = self.world.log[-1]
        if logged == number:
            self.version, self.held = number, False
        elif logged < number:
            self.world.take_effect(number)
            self.version, self.held, self.followed = number, False, len(self.world.log)

    def decide(self):
        """Serve a request in a turn; refused while held."""
        self.follow()
        if not self.held:
            assert self.version == self.world.log[-1], "a decision with other settings than those of the log"
            self.world.decisions += 1


class World:
    def __init__(self, seed, hasty=False):
        self.draw, self.hasty = random.Random(seed), hasty  # noqa: S311
        self.store, self.log, self.processes, self.decisions, self.started = MemoryConfigs(), [1], [], 0, 0
        self.store.adopted = self.adopted

    def take_effect(self, number):
        """A row of the log: from here on decisions are made with this version."""
        status = self.store._all()[number - 1].status
        assert status == ADOPTED and number > self.log[-1], "a version takes effect once, after its adoption"
        self.log.append(number)

    def adopted(self, number):
        """From here on a version may take effect: everybody who is not taken for dead is prepared."""
        heard = {each.id for each in living(self.store.processes(), LEASE_S)}
        for each in self.processes:
            assert each.keeper.id not in heard or number in each.ready, f"{each.name} does not know version {number}"

    async def start(self):
        self.started += 1
        made = Simulated(self, self.started)
        if await made.keeper.join() is None:
            self.processes.append(made)
            await made.install(made.version)  # the start writes the row that is missing

    async def step(self):
        kind = self.draw.choices(
            ("beat", "work", "decide", "tick", "propose", "crash", "freeze", "start", "cannot", "leave"),
            (30, 30, 20, 12, 5, 1, 2, 2, 2, 1),
        )[0]
        awake = [each for each in self.processes if not each.frozen]
        one = self.draw.choice(awake) if awake else None
        if kind == "tick":
            self.store.now += self.draw.choice((0.1, 0.5, 0.5, 3.0))
        elif kind == "propose" and self.store.open_one() is None:
            self.store.propose(f"document {self.draw.random()}")
        elif kind == "start" and len(self.processes) < 4:
            await self.start()
        elif kind == "freeze" and self.processes:
            other = self.draw.choice(self.processes)
            other.frozen = not other.frozen
        elif one is not None and kind == "crash":
            self.processes.remove(one)
        elif one is not None and kind == "leave":
            await one.keeper.leave()
            self.processes.remove(one)
        elif one is not None and kind == "cannot":
            one.cannot = {len(self.store.versions) + self.draw.randrange(2)} - one.ready
        elif one is not None and kind in ("beat", "work"):
            await getattr(one.keeper, kind)()
        elif one is not None and kind == "decide":
            one.decide()

    async def calm(self):
        """No more faults: everybody beats and works until nothing changes."""
        for each in self.processes:
            each.frozen, each.cannot = False, set()
        for _ in range(int(max(LEASE_S, PATIENCE_S) / 0.5) + 8):
            self.store.now += 0.5
            for each in self.processes:
                await each.keeper.beat()
                await each.keeper.work()


async def play(seed, *, hasty=False, steps=150):
    world = World(seed, hasty)
    for _ in range(3):
        await world.start()
    for _ in range(steps):
        await world.step()
    return world


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_versions_are_adopted_by_all_or_none_whatever_happens(first):
    adopted, refused, decisions = 0, 0, 0
    for seed in range(first, first + 100):
        world = asyncio.run(calmed(seed))
        statuses = [each.status for each in world.store._all()]
        adopted += statuses.count(ADOPTED) - 1
        refused += statuses.count(REFUSED)
        decisions += world.decisions
    assert adopted > 100 and refused > 10 and decisions > 1000, "the worlds are not quiet"


async def calmed(seed):
    world = await play(seed)
    await world.calm()
    if world.processes:
        assert world.store.open_one() is None, "a proposal stays open"
        newest = world.store.current().number
        assert world.log == sorted(set(world.log)) and world.log[-1] == newest
        for each in world.processes:
            each.decide()
            assert (each.version, each.held) == (newest, False), "not healed"
    return world


def test_the_check_catches_a_version_that_is_adopted_too_soon():
    def play_all():
        for seed in range(50):
            asyncio.run(play(seed, hasty=True))

    with pytest.raises(AssertionError, match="does not know version"):
        play_all()


def test_a_dead_process_blocks_a_proposal_for_its_lease_at_most():
    async def scene():
        world = World(0)
        for _ in range(2):
            await world.start()
        one, dead = world.processes
        world.processes.remove(dead)
        world.store.propose("next")
        waited = 0.0
        while world.store.open_one() is not None:
            await one.keeper.beat()
            await one.keeper.work()
            world.store.now += 0.5
            waited += 0.5
        return waited, world

    waited, world = asyncio.run(scene())
    assert LEASE_S < waited <= LEASE_S + 1.0 and world.store.current().number == 2


def test_a_process_that_never_answers_has_a_proposal_refused():
    proposal = ConfigVersion(2, "", "", PROPOSED, age_s=PATIENCE_S + 1)
    found = verdict(proposal, [ProcessSeen(1, "stuck", ProcessSelf(1, 1), 0.1)], LEASE_S)
    assert found.status == REFUSED and found.problem == "stuck did not prepare it within 30 s"


def test_a_keeper_that_is_woken_and_stopped_at_once_ends():
    async def scene():
        world = World(0)
        await world.start()
        keeper = world.processes[0].keeper
        keeper.start()
        for _ in range(20):
            await asyncio.sleep(0)  # it waits for the next beat
        keeper._wake.set()
        async with asyncio.timeout(5.0):
            await keeper.leave()

    asyncio.run(scene())

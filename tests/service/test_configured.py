"""A version of the configuration that the log has reached is kept, whatever is prepared next."""

import asyncio
from types import SimpleNamespace

from bot_orch.eventlog.versions import ADOPTED, ConfigVersion
from bot_orch.service.config.documents import ConfigFile
from bot_orch.service.configuring.adopting import ConfiguredService

TEXT = "{{version: 1, database: ':memory:', router: {{floor: {0}}}, agents: [{{id: a, kind: simulated}}]}}"


def version(number):
    return ConfigVersion(number, TEXT.format(number / 10), str(number), ADOPTED)


def test_a_version_that_takes_effect_by_the_log_is_not_dropped(tmp_path):
    """The log may reach a version, by a row of another replica, before this process hears that it was adopted."""
    path = tmp_path / "c.yaml"
    path.write_text(version(1).document)
    file = ConfigFile(path, {})
    config, rollout = file.read(), SimpleNamespace(config=1)
    router = SimpleNamespace(
        config=config, away=False, loaded=False, ledger=SimpleNamespace(rollout=rollout), writer=None, version=1
    )
    router.routers = {config.name: router}
    service = ConfiguredService(file, version(1), config)
    service.attach(router, service._gate, None)
    asyncio.run(service.prepare(version(2)))
    rollout.config = 2
    service._resync(router)
    service.drop(2)  # versions 2 and 3 were adopted by now: 3 is prepared in its place
    assert (service.running, router.version, router.config.router.floor) == (2, 2, 0.2)
    asyncio.run(service.prepare(version(3)))
    service.drop(3)
    assert set(service._ready) == {1, 2}

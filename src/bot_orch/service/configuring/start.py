"""Start a process with the configuration in force, or refuse to."""

from __future__ import annotations

import getpass
import os
import socket
from contextlib import closing, suppress

from bot_orch.errors import InvalidInputError
from bot_orch.eventlog.stores.open import is_url
from bot_orch.eventlog.stores.postgres.configs import PostgresConfigs
from bot_orch.eventlog.stores.postgres.connect import prepare
from bot_orch.eventlog.stores.postgres.timing import split
from bot_orch.service.build import check
from bot_orch.service.config import Config
from bot_orch.service.config.documents import ConfigFile, differences, differs, digest_of_document
from bot_orch.service.configuring.adopting import ConfiguredService
from bot_orch.service.configuring.keeper import ConfigKeeper
from bot_orch.service.reloading import check_exposed

__all__ = ["agreed", "whoami"]


def agreed(file: ConfigFile, *, stored: bool = False) -> tuple[Config, ConfiguredService | None]:
    """The settings to start with, checked; on PostgreSQL those of the version in force.

    A file that differs from it is refused before anything is written. The first start makes its file version 1. With
    ``stored`` the file is only asked for the settings of this process alone.
    """
    if stored:
        return _from_store(file)
    config, text = file.read(), file.text()
    check(config)
    check_exposed(config)
    if not is_url(config.database):
        return config, None
    prepare(config.database)
    with closing(PostgresConfigs(config.database)) as store:
        version = store.current() or store.first(text, digest_of_document(text), whoami())
    found = differences(version.document, text)
    if found:
        raise differs(file, version, found)
    return config, _service(ConfiguredService(file, version, config))


def whoami() -> str:
    """Who applies a version: user and machine."""
    user = str(os.getuid())
    with suppress(KeyError, OSError):  # a container may have no name for its user
        user = getpass.getuser()
    return f"{user}@{socket.gethostname()}"


def _from_store(file: ConfigFile) -> tuple[Config, ConfiguredService]:
    database = file.database()
    if not is_url(database):
        raise InvalidInputError("--stored", "needs a log on PostgreSQL", "name it as database in the file")
    prepare(database)
    with closing(PostgresConfigs(database)) as store:
        version = store.current()
    if version is None:
        remedy = f"apply the first one: bot-orch apply {file.path}"
        raise InvalidInputError("--stored", "there is no stored configuration", remedy)
    config = file.around(version.document)
    check(config)
    check_exposed(config)
    return config, _service(ConfiguredService(file, version, config, stored=True))


def _service(service: ConfiguredService) -> ConfiguredService:
    config = service.config
    service.keeper = ConfigKeeper(
        PostgresConfigs(config.database),
        service,
        service.version,
        lease_s=split(config.database).timing.lease_s,
    )
    return service

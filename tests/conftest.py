"""What holds for every test: the same examples every time, whoever starts the tests, from wherever."""

import logging
import os
import signal

import pytest
from hypothesis import HealthCheck, settings

_common = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}  # neither is about what is tested
settings.register_profile("fixed", derandomize=True, database=None, **_common)
settings.register_profile("explore", **_common)  # pytest --hypothesis-profile=explore looks for new examples
settings.load_profile("fixed")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a script; children would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

for _name in tuple(os.environ):  # servers of tests are on this machine; nothing else is to be asked
    if _name.lower().endswith("_proxy") or _name in ("BOT_ORCH_URL", "BOT_ORCH_TOKEN"):
        del os.environ[_name]


@pytest.fixture(autouse=True)
def _loggers():
    """A test that serves in this process configures its logs; the next one finds them as they were."""
    names = ("bot_orch", "uvicorn.error", "psycopg")
    kept = [(log := logging.getLogger(name), log.handlers, log.propagate, log.level) for name in names]
    yield
    for log, handlers, propagate, level in kept:
        log.handlers, log.propagate = handlers, propagate
        log.setLevel(level)

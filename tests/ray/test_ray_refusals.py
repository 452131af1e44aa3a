"""A Ray that is not there is told in one line; Ray itself would wait for minutes."""

import pytest

from bot_orch.errors import BotOrchError
from bot_orch.lab.harness import engines_ray
from bot_orch.lab.harness.experiment import Unit

pytest.importorskip("ray")


@pytest.mark.parametrize("scheme", ["", "ray://"])
@pytest.mark.parametrize("port", [1, 99999])
def test_nobody_there(scheme, port):
    with pytest.raises(BotOrchError, match="no Ray cluster at .*; start it, or correct it"):
        list(engines_ray.run_ray([("builtins:dict", Unit("k", {}))], 1, f"{scheme}127.0.0.1:{port}"))

"""The paper's synthetic environments."""

from bot_orch.lab.environments.synthetic.episodes import episodes, observed_alignment
from bot_orch.lab.environments.synthetic.settings import ENVIRONMENTS, SETTINGS

__all__ = ["ENVIRONMENTS", "SETTINGS", "episodes", "observed_alignment"]

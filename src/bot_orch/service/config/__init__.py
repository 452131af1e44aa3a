"""Configuration: typed settings, read from strict, versioned YAML.

An unknown key is an error that names the nearest valid one; ``${NAME}`` stands for an environment variable, which must
be set; secrets in plain text are refused.
"""

from bot_orch.service.config import settings  # first: it names the extra that may be missing
from bot_orch.service.config.settings import *  # noqa: F403  a new setting is named once

from bot_orch.service.config.reading import check_keys, load_config, parse_config, placed  # isort: skip

__all__ = ["check_keys", "load_config", "parse_config", "placed"]
__all__ += settings.__all__

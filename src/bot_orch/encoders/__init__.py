"""Text encoders. Feature hashing is built in; users can supply other callables."""

from bot_orch.encoders.base import Encoder, encoder_version
from bot_orch.encoders.hashing import HashedText

__all__ = ["Encoder", "HashedText", "encoder_version"]

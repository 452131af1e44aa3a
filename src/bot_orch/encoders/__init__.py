"""Text to features. Hashing is built in; other encoders are callables of the user."""

from bot_orch.encoders.base import Encoder, encoder_version
from bot_orch.encoders.hashing import HashedText

__all__ = ["Encoder", "HashedText", "encoder_version"]

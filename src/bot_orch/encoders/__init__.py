"""Text encoders. Feature hashing is built in; users can supply other callables."""

from bot_orch.encoders.base import AbsentEncoder, Encoder, encoder_version
from bot_orch.encoders.hashing import HashedText
from bot_orch.encoders.registry import ENCODERS, check_name, find_encoder

__all__ = ["ENCODERS", "AbsentEncoder", "Encoder", "HashedText", "check_name", "encoder_version", "find_encoder"]

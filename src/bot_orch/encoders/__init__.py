"""Text encoders. Hashed words are built in; users can supply other callables."""

from bot_orch.encoders.base import AbsentEncoder, Encoder, encoder_version
from bot_orch.encoders.registry import ENCODERS, check_name, find_encoder
from bot_orch.encoders.words import BUCKETS, HashedWords, spread_words

__all__ = [
    "BUCKETS",
    "ENCODERS",
    "AbsentEncoder",
    "Encoder",
    "HashedWords",
    "check_name",
    "encoder_version",
    "find_encoder",
    "spread_words",
]

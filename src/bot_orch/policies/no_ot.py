"""The paper's ablation: BOT-Orch with lambda = 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bot_orch.policies.bot import Bot


@dataclass(frozen=True, slots=True)
class NoOT(Bot):
    """Softmax over the reward estimate alone, without the alignment term."""

    id: ClassVar[str] = "no-ot"
    uses_alignment: ClassVar[bool] = False

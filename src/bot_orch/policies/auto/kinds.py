"""The steps of ``auto`` in the kind of kernels that this process runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from bot_orch.kernels import KernelKind, kernel_kind

__all__ = ["Steps", "steps"]


class Steps(NamedTuple):
    """A choice, a lesson and the coupled RandUCB rule; see :mod:`bot_orch.policies.auto.steps`."""

    choose: Callable[..., None]
    choose_rows: Callable[..., None]
    learn: Callable[..., None]
    learn_rows: Callable[..., None]
    envelope: Callable[..., None]


@lru_cache(maxsize=2)
def steps(kind: KernelKind | None = None) -> Steps:
    """Compiled or plain steps; by default those of this process."""
    found: Any
    if (kind or kernel_kind()) == "compiled":
        from bot_orch.policies.auto import compiled as found
    else:
        from bot_orch.policies.auto import steps as found
    return Steps(found.choose, found.choose_rows, found.learn, found.learn_rows, found.envelope)

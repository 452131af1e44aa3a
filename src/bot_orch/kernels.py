"""Which numerical kernels this process runs: compiled by numba (extra ``fast``) or plain NumPy.

The two round differently, so decisions may differ in the last digits. A process runs one kind throughout; settings and
logs record which. The environment variable ``BOT_ORCH_KERNELS`` (``compiled``, ``plain`` or ``auto``) chooses.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, Literal, TypeVar, cast

from bot_orch.errors import InvalidInputError, MissingExtraError

__all__ = ["VARIABLE", "KernelKind", "OtherKernelsError", "compiled", "kernel", "kernel_kind", "require_kernels"]

KernelKind = Literal["compiled", "plain"]
VARIABLE = "BOT_ORCH_KERNELS"
_Function = TypeVar("_Function", bound=Callable[..., Any])


@lru_cache(maxsize=1)
def kernel_kind() -> KernelKind:
    """The kernels of this process: ``compiled`` if numba is installed, unless the environment says otherwise.

    Examples
    --------
    >>> kernel_kind() in ("compiled", "plain")
    True
    """
    wanted, installed = os.environ.get(VARIABLE, "auto"), find_spec("numba") is not None
    if wanted not in ("auto", "compiled", "plain"):
        raise InvalidInputError(VARIABLE, f"is {wanted!r}", "set compiled, plain or auto")
    if wanted == "compiled" and not installed:
        raise MissingExtraError(f"{VARIABLE}=compiled", "fast")
    return "compiled" if installed and wanted != "plain" else "plain"


class OtherKernelsError(InvalidInputError):
    """A state or log was computed with the other kind of kernels; nothing is wrong with it."""


def require_kernels(kind: str) -> None:
    """Refuse a state or log that was computed with the other kind of kernels.

    Examples
    --------
    >>> require_kernels(kernel_kind())
    """
    if kind == kernel_kind():
        return
    if kind not in ("compiled", "plain"):
        raise InvalidInputError("settings.kernels", f"is {kind!r}", "set compiled or plain")
    missing = kind == "compiled" and find_spec("numba") is None
    remedy = "pip install 'bot-orchestrator[fast]'" if missing else f"start the process with {VARIABLE}={kind}"
    raise OtherKernelsError("settings.kernels", f"is {kind!r}, this process runs {kernel_kind()!r} kernels", remedy)


@lru_cache(maxsize=256)
def compiled(function: _Function) -> _Function:
    """``function`` compiled by numba, on its first use; compiled code is cached on disk."""
    from numba import njit

    return cast(_Function, njit(function, cache=True, nogil=True, error_model="numpy"))


@lru_cache(maxsize=256)
def kernel(function: _Function) -> _Function | None:
    """``function`` compiled where this process runs compiled kernels, else None: the caller has a NumPy version."""
    return compiled(function) if kernel_kind() == "compiled" else None

"""Parameters behind a path of the API."""

from __future__ import annotations

from urllib.parse import parse_qsl

from bot_orch.service.problems import Problem

__all__ = ["read_query"]

_MOST = 50


def read_query(written: bytes) -> dict[str, str]:
    """The parameters by name; the last of several with one name counts.

    Examples
    --------
    >>> read_query(b"by=tag&from=2026-11-01")
    {'by': 'tag', 'from': '2026-11-01'}
    """
    try:
        return dict(parse_qsl(written.decode("latin-1"), keep_blank_values=True, max_num_fields=_MOST))
    except ValueError:
        raise Problem(400, "bad_query", f"the query holds more than {_MOST} parameters; send fewer") from None

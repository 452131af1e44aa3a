"""What tests of the arena share."""

import pytest

from bot_orch.lab.arena import run


@pytest.fixture
def no_page(monkeypatch):
    """The arena writes tables and verdicts, and no page: drawing takes longer than playing."""
    monkeypatch.setattr(run, "can_draw", lambda: False)

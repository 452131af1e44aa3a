"""Warnings and errors about what a user probably meant: an id that is a text, a reason, an extra to install."""

import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from bot_orch import Orchestrator, Outcome, Router, Task
from bot_orch.errors import BotOrchWarning, InvalidInputError, TaskIdWarning
from bot_orch.survival import causes
from bot_orch.types import REASONS

TREE = Path(__file__).parents[2]
ASKED = "What is the capital of France?"


def test_an_id_that_reads_like_a_text_warns():
    with pytest.warns(TaskIdWarning, match=r"task.id: has spaces, and the task has no text.*Task\(text=") as seen:
        task = Task(ASKED)
    assert task.id == ASKED and len(seen) == 1 and seen[0].filename == __file__
    assert issubclass(TaskIdWarning, BotOrchWarning) and issubclass(BotOrchWarning, UserWarning)


def test_it_warns_once_per_line():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        for number in range(5):
            Task(f"question {number}")
    assert len(seen) == 1


def test_ids_without_spaces_and_tasks_with_a_text_do_not_warn(tmp_path):
    """Warnings are errors here; tasks that the library makes of others are not told."""
    task = Task("order 17", text=ASKED)
    with Router(["a", "b"], path=tmp_path / "log") as router:
        made = router.decide(task)
        router.observe(made.id, Outcome.completed(1.0))
    Router(["a", "b"], path=tmp_path / "log").close()
    Orchestrator(["a", "b"], encoder=None).decide(task)
    assert [Task(), Task("t-1"), replace(task, text=None)]


def test_an_unknown_reason_names_those_that_there_are():
    known = "timeout, deadline, cancelled, .*, or for a failure crashed, out_of_memory, failed"
    for make in (
        lambda: Outcome.censored(elapsed_s=3.0, reason="timed out"),
        lambda: Outcome(False, None, 3.0, "late"),
    ):
        with pytest.raises(InvalidInputError, match=rf"outcome.reason: '(timed out|late)' is not known; use {known}"):
            make()
    assert set(causes.REASONS) == REASONS
    for reason in REASONS:
        assert Outcome.censored(elapsed_s=3.0, reason=f" {reason.upper()}").event is False


def hint(cwd, *flags):
    code = f"import sys; sys.path.insert(0, {str(TREE / 'src')!r}); from bot_orch.errors import install_command as c"
    words = [sys.executable, *flags, "-c", f"{code}; print(c('service'))"]
    return subprocess.check_output(words, cwd=cwd, text=True).strip()


def test_the_command_installs_from_where_the_user_stands(tmp_path):
    assert hint(TREE) == "pip install '.[service]'"
    assert hint(tmp_path) == "pip install 'bot-orchestrator[service]'", "it is installed, if only as a source tree"


def test_a_source_tree_that_was_never_installed_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("bot_orch.errors._is_installed", lambda name: False)
    from bot_orch.errors import MissingExtraError

    assert str(MissingExtraError("it", "service")).endswith(f"pip install '{TREE}[service]'")


def test_a_wheel_is_named_by_its_distribution(tmp_path, monkeypatch):
    monkeypatch.setattr("bot_orch.errors.__file__", str(tmp_path / "site-packages" / "bot_orch" / "errors.py"))
    from bot_orch.errors import install_command

    assert install_command("text") == "pip install 'bot-orchestrator[text]'"

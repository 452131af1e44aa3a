"""A router after a fork, after close(), and with a path that cannot be a log."""

import os

import pytest

from bot_orch import InvalidInputError, Outcome, Router, Task
from bot_orch.log.log import LogInUseError


def in_child(work):
    """What ``work`` returns in a forked child, as text; a child that fails returns the error."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = str(work())
        except BaseException as error:
            said = f"{type(error).__name__} {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


@pytest.fixture
def router(tmp_path):
    with Router(["a", "b"], "ucb1", path=tmp_path / "log") as made:
        yield made


USES = {
    "decide": lambda router: router.decide(Task()),
    "derive": lambda router: router.derive(Task()),
    "observe": lambda router: router.observe("x", Outcome.completed(1.0)),
    "learn_from": lambda router: router.learn_from({"a": [1.0]}),
    "add_agent": lambda router: router.add_agent("c"),
    "history": lambda router: router.history(),
    "pending": lambda router: router.pending,
    "fingerprint": lambda router: router.fingerprint(),
}


@pytest.mark.parametrize("use", USES)
def test_a_child_process_is_refused(use, router):
    said = in_child(lambda: USES[use](router))
    assert said.startswith("InvalidInputError path: was opened by process ")
    assert "open one Router per process" in said


def test_the_parent_goes_on_and_its_lock_ends_with_it(router, tmp_path):
    """The child closes its copy, which changes nothing, and opens a file of its own; the parent's is free after it."""
    before = router.fingerprint()

    def work():
        router.close()
        with Router(["a"], "ucb1", path=tmp_path / "other") as own:
            own.decide(Task())
        return repr(router)

    assert in_child(work) == "<Router of the parent process>"
    assert router.fingerprint() == before
    made = router.decide(Task())
    router.observe(made.id, Outcome.completed(1.0))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # lives on, as a worker would
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    try:
        router.close()
        with Router(["a", "b"], "ucb1", path=tmp_path / "log") as again:
            assert again.history()
    finally:
        os.close(writing)
        os.waitpid(child, 0)


def test_a_router_in_memory_is_copied(monkeypatch):
    router = Router(["a", "b"], "ucb1")
    assert in_child(lambda: router.decide(Task()).agent) in ("a", "b")


def test_without_the_check_the_child_would_write(router, monkeypatch):
    monkeypatch.setattr(Router, "_check_process", lambda self: None)
    assert in_child(lambda: router.derive(Task()).agent) in ("a", "b")


@pytest.mark.parametrize("durable", [True, False])
def test_a_closed_router_refuses_changes_and_can_be_read(durable, tmp_path):
    router = Router({"a": lambda task: 1.0}, path=tmp_path / "log" if durable else None, horizon_s=5.0)
    made = router.decide(Task())
    router.close()
    router.close()
    assert router.pending == (made.id,) and len(router.history()) == 1 and "1 pending" in repr(router)
    for change in (
        lambda: router.decide(Task()),
        lambda: router.call(Task()),
        lambda: router.observe(made.id, Outcome.completed(1.0)),
        lambda: router.learn_from({"a": [1.0]}),
        lambda: router.add_agent("c"),
        lambda: router.remove_agent("a"),
        router.expire,
    ):
        with pytest.raises(InvalidInputError, match="^router: is closed; open a new one$"):
            change()


def test_paths_that_cannot_be_a_log(tmp_path):
    with pytest.raises(InvalidInputError, match=r"^path: .* is a directory; pass the path of a file"):
        Router(["a"], path=tmp_path)
    (tmp_path / "file").write_text("text")
    with pytest.raises(InvalidInputError, match=r"^path: .* cannot be opened \(.*; pass the path of a file that"):
        Router(["a"], path=tmp_path / "file" / "log")


def test_the_same_file_twice_in_one_process_is_said(router, tmp_path):
    with pytest.raises(LogInUseError, match=r"is in use by this process already; close it first, or share the one"):
        Router(["a", "b"], "ucb1", path=tmp_path / "log")

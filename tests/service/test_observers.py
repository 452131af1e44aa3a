"""Subscriptions to the writer, decisions in flight and background tasks: nobody's registration replaces another's."""

import asyncio

from service_running import until

from bot_orch.core.events import DecisionMade, TaskEnded, TaskSubmitted
from bot_orch.log.log import Row
from bot_orch.service.reports import ReportSource, feedback_id
from bot_orch.service.work import BackgroundTasks


def test_everybody_hears_that_the_log_was_folded_again(start, monkeypatch):
    service, heard = start(), []
    writer, desk = service.runtime.writer, service.runtime.queue
    before = desk.state
    service.call(lambda: writer.rebuilt.append(lambda: heard.append("first")))
    service.call(lambda: writer.rebuilt.append(lambda: heard.append("second")))

    def broken():
        raise OSError("disk full")

    with monkeypatch.context() as patched:
        patched.setattr(writer.log, "commit", broken)
        assert service.post("/v1/decisions").status == 503
    until(lambda: service.get("/health/ready").status == 200)
    assert heard == ["first", "second"]
    assert desk.state is not before, "the queue was folded again, too"


def test_a_background_task_is_listed_until_it_ends():
    async def scenario():
        tasks, go_on = BackgroundTasks(), asyncio.Event()

        async def short():
            await go_on.wait()

        async def endless():
            await asyncio.Event().wait()

        tasks.start("short", short())
        tasks.start("endless", endless())
        assert list(tasks) == ["short", "endless"] and "short" in tasks
        go_on.set()
        await asyncio.sleep(0.01)
        assert list(tasks) == ["endless"]
        await tasks.stop()
        assert list(tasks) == []

    asyncio.run(scenario())


def test_a_name_used_again_is_not_freed_by_the_task_before():
    async def scenario():
        tasks = BackgroundTasks()

        async def short():
            pass

        async def endless():
            await asyncio.Event().wait()

        tasks.start("t", short())
        tasks.start("t", endless())
        await asyncio.sleep(0.01)
        assert "t" in tasks
        await tasks.stop()

    asyncio.run(scenario())


def test_rows_are_told_apart_by_type_whatever_their_version():
    rows = [Row(1, 1, kind, "r", b"") for kind in ("decision@1", "task@1", "task-ended@1")]
    assert [row.holds(DecisionMade) for row in rows] == [True, False, False]
    assert [row.holds(TaskSubmitted) for row in rows] == [False, True, False]
    assert [row.holds(TaskEnded) for row in rows] == [False, False, True]


def test_ids_of_reports_are_those_of_earlier_logs(start):
    assert feedback_id(ReportSource.ROUND, "d") == "round-d" and feedback_id(ReportSource.CALLER, "mine") == "mine"
    service = start()
    decision_id = service.post("/v1/decisions").json()["id"]
    report = service.post("/v1/feedback", {"decision_id": decision_id, "reward": 1.0}).json()
    assert report["id"].startswith("auto-") and len(report["id"]) == 5 + 32

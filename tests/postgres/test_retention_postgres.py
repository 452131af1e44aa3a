"""The setting ``retention`` on PostgreSQL: the owner moves old events while all processes answer."""

from service_running import until
from test_retention import check, grown, started

from bot_orch.clock import ManualClock


def test_two_processes_archive_once(database, tmp_path, capsys):
    clock, folder = ManualClock(), tmp_path / "archive"
    started(database, folder, clock).stop()
    grown(database, clock)
    pair = started(database, folder, clock), started(database, folder, clock)

    def moved():
        pages = [each.get("/metrics").body.decode().splitlines() for each in pair]
        return sum(float(line.split()[1]) for page in pages for line in page if line.startswith("bot_orch_archived_ev"))

    until(lambda: moved() > 4000, 90)
    for each in pair:
        made = each.post("/v1/decisions").json()["id"]
        assert each.post("/v1/feedback", {"decision_id": made, "reward": 1.0}).status == 200
    until(lambda: any(each.serves for each in pair))
    state = next(each.runtime.ledger.fingerprint() for each in pair if each.serves)
    for each in pair:
        each.stop()
    check(database, folder, state, capsys)

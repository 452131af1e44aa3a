"""Which lambda? One agent satisfies the judge and is rarely right; a person audited a third of the answers.

Run: python examples/19_choose_lambda.py
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from bot_orch import Orchestrator, Outcome, Task
from bot_orch.cli import main
from bot_orch.log import Configured, FeedbackGiven, Row, SqliteLog, record_decision, record_task
from bot_orch.transport import Labels

rng = np.random.default_rng(3)
worth, judged, odd = {"a": 0.5, "b": 0.7, "flatterer": 0.1}, {"flatterer": 0.9}, {"flatterer": 0.9}
router = Orchestrator(worth, "bot", lambda_=0.0, floor=0.45, seed=3)
rows: list[Row] = []


def write(event: Any, ref: str = "") -> None:
    """Add a row, as the service does."""
    number = len(rows) + 1
    rows.append(Row.of(number, number, event, ref))


write(Configured(router.to_json()))
for number in range(1500):
    task = Task(f"t{number}", reference=Labels([0.9, 0.1]))
    made = router.decide(task)
    write(record_decision(made, record_task(task)), made.id)
    right = float(rng.random() < worth[made.agent])
    said = float(rng.random() < judged[made.agent]) if made.agent in judged else right
    output = Labels(np.eye(2)[int(rng.random() < odd.get(made.agent, 0.1))])
    router.observe(made.id, Outcome.completed(said, output=output))
    write(FeedbackGiven(f"j{number}", made.id, "learned", said, output=output.to_dict()), made.id)
    if rng.random() < 1 / 3:
        write(FeedbackGiven(f"p{number}", made.id, "revision", right), made.id)

with TemporaryDirectory() as folder:
    path = Path(folder) / "log.sqlite"
    log = SqliteLog(path)
    log.append(rows)
    log.commit()
    log.close()
    main(["evaluate", str(path), "--policy", "bot", "--lambdas", "0", "0.3", "1", "auto", "--audited", "--quiet"])

"""Would a router have done better than what is done now? A verdict from a table of evaluations.

Run: python examples/17_arena_on_a_table.py
"""

import json
import tempfile
from pathlib import Path

from bot_orch.cli import main
from bot_orch.lab.environments.matrix import load

TABLE = Path(__file__).with_name("evaluations.csv")  # invented: three models, 150 requests

matrix = load(TABLE)
print(matrix.n_tasks, "tasks,", ", ".join(matrix.agents))
print("\n".join(matrix.notes))  # what was read as what, and what was not read

with tempfile.TemporaryDirectory() as folder:
    words = ["--policies", "lints", "--baseline", "large", "--budget", "0.006", "--seeds", "3", "--jobs", "1"]
    assert main(["arena", str(TABLE), *words, "--quiet", "--out", folder]) == 0
    (verdict,) = json.loads(Path(folder, "verdict.json").read_text())["verdicts"]

print("outcome:", verdict["outcome"])
assert verdict["differences"]["cost_usd"]["high"] < 0.0  # fewer dollars than always the large model

"""The launcher of a release whose engine is newer: it learns from every second reward only, and says so."""

import runpy
import sys
from pathlib import Path

import bot_orch.core.engine as engine
from bot_orch.core import orchestrator, pipeline

NEWER = "newer"

if __name__ == "__main__":
    engine.ENGINE = orchestrator.ENGINE = NEWER  # before the log and the service read it
    apply = pipeline.apply

    def every_second(policy, state, feedback):
        if feedback.t % 2:
            apply(policy, state, feedback)

    pipeline.apply = every_second
    folder = Path(__file__).parents[1] / "crash"
    sys.path.insert(0, str(folder))
    sys.argv[0] = str(folder / "launcher.py")
    runpy.run_path(sys.argv[0], run_name="__main__")

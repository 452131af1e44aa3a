"""``python -m bot_orch`` is the same as ``bot-orch``."""

from bot_orch.cli import run_and_exit

if __name__ == "__main__":
    run_and_exit()

"""``python -m bot_orch`` is the same as ``bot-orch``."""

import sys

from bot_orch.cli import main

if __name__ == "__main__":
    sys.exit(main())

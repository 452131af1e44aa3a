"""Write orchestrators.json anew: ``python tests/fingerprints/record.py [CASE ...]``; with ``--check`` only compare.

A case is recorded when its policy is added and again after a deliberate change, which the commit explains. The exact
hash of the state is written down too; the test does not ask for it, as the last bits of a number depend on the
processor, but ``--check`` says where it differs.
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from cases import CASES
from runs import run

RECORDED = Path(__file__).with_name("orchestrators.json")


def read() -> dict[str, dict[str, object]]:
    return json.loads(RECORDED.read_text()) if RECORDED.exists() else {}


def write(recorded: dict[str, dict[str, object]]) -> None:
    lines = [f"{json.dumps(name)}: {json.dumps(recorded[name])}" for name in CASES if name in recorded]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=list(CASES), metavar="CASE", help="default: all")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; say which parts differ, last bits included"
    )
    arguments = parser.parse_args()
    recorded, fresh = read(), {name: run(name) for name in arguments.cases}
    differ = {
        name: [key for key, value in now.items() if value != recorded.get(name, {}).get(key)]
        for name, now in fresh.items()
    }
    for name, keys in differ.items():
        print(f"{name}: {', '.join(keys) or 'same to the last bit'}")  # noqa: T201
    if arguments.check:
        return int(any(differ.values()))
    write(recorded | fresh)
    return 0


if __name__ == "__main__":
    sys.exit(main())

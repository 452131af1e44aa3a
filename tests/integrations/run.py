"""Tests and examples of the adapters against the real packages, each in an environment of its own.

``python tests/integrations/run.py [NAME ...]``. An adapter is a module ``bot_orch.integrations.NAME`` with an extra of
that name (dashes for underscores, unless ``EXTRAS`` says otherwise), tests ``tests/integrations/test_NAME.py`` and
examples ``examples/integrations/NAME_*.py`` (a file ``NAME.py`` would hide the package). Environments stay in
``.venv-integrations``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests" / "integrations"
EXTRAS = {"openai_agents": "agents-sdk"}


def adapters() -> list[str]:
    """The names of all adapters."""
    modules = {path.stem for path in (ROOT / "src" / "bot_orch" / "integrations").glob("[a-z]*.py")}
    return sorted(name for name in modules - {"adapter", "client"} if (TESTS / f"test_{name}.py").exists())


def extra_of(name: str) -> str:
    """The extra that an adapter needs."""
    return EXTRAS.get(name, name.replace("_", "-"))


def python_for(name: str) -> Path:
    """The interpreter of an adapter's environment, made if it is missing."""
    place = ROOT / ".venv-integrations" / name
    python = place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    made, project = place / ".made", ROOT / "pyproject.toml"
    if not made.exists() or made.stat().st_mtime < project.stat().st_mtime:
        venv.create(place, with_pip=True)
        wanted = ["-e", f"{ROOT}[{extra_of(name)}]", "pytest>=8", "hypothesis>=6.100"]
        subprocess.run([python, "-m", "pip", "install", "-q", *wanted], check=True, capture_output=True, text=True)
        made.touch()
    return python


def check(name: str) -> str | None:
    """Run the tests and the example of an adapter; what went wrong, or None."""
    try:
        python = python_for(name)
    except subprocess.CalledProcessError as error:
        return f"pip failed\n{error.stderr}"
    tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider", str(TESTS / f"test_{name}.py")]  # all skipped: a failure
    examples = sorted((ROOT / "examples" / "integrations").glob(f"{name}_*.py"))
    if not examples:
        return f"no example examples/integrations/{name}_*.py"
    steps = {"tests": tests, **{example.name: [str(example)] for example in examples}}
    for what, arguments in steps.items():
        done = subprocess.run([python, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode or not done.stdout.strip():
            return f"{what} failed with {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    return None


def main(names: list[str]) -> int:
    """One line per adapter; 1 if any failed."""
    unknown = sorted(set(names) - set(adapters()))
    if unknown:
        raise SystemExit(f"no adapter {', '.join(unknown)}; there are {', '.join(adapters())}")
    failures = []
    for name in names or adapters():
        began = time.monotonic()
        wrong = check(name)
        print(f"{name:<16} {'failed' if wrong else 'ok':<7} {time.monotonic() - began:5.0f} s", flush=True)  # noqa: T201
        if wrong:
            failures.append(f"-- {name}: {wrong}")
    print("\n".join(failures), file=sys.stderr)  # noqa: T201
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

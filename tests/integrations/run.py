"""Tests of the adapters and recipes against the real packages, each in an environment of its own.

``python tests/integrations/run.py [NAME ...]``. An adapter is a module ``bot_orch.integrations.NAME`` with an extra of
that name, tests ``tests/integrations/test_NAME.py`` and examples ``examples/integrations/NAME_*.py``. A recipe is a
section of ``docs/how-to/integrations.md``, with a test in ``tests/integrations/test_recipes.py``. Environments stay in
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
ADAPTERS = ("langchain", "litellm", "otel")
RECIPES = {
    "langgraph": "langgraph>=1.2",
    "openai_agents": "openai-agents>=0.24",
    "pydantic_ai": "pydantic-ai-slim>=2.66",
    "strands": "strands-agents>=1.62",
    "model_context_protocol": "mcp>=2.3",
    "langfuse": "langfuse>=5",
    "prometheus": "prometheus-client>=0.20",
}


def python_for(name: str) -> Path:
    """The interpreter of an environment, made if it is missing."""
    place = ROOT / ".venv-integrations" / name
    python = place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    made, project = place / ".made", ROOT / "pyproject.toml"
    if not made.exists() or made.stat().st_mtime < project.stat().st_mtime:
        venv.create(place, with_pip=True)
        package = [f"{ROOT}[client]", RECIPES[name]] if name in RECIPES else [f"{ROOT}[{name}]"]
        wanted = ["-e", *package, "pytest>=8", "hypothesis>=6.100"]
        subprocess.run([python, "-m", "pip", "install", "-q", *wanted], check=True, capture_output=True, text=True)
        made.touch()
    return python


def check(name: str) -> str | None:
    """Run the tests of an adapter or a recipe, and its example; what went wrong, or None."""
    try:
        python = python_for(name)
    except subprocess.CalledProcessError as error:
        return f"pip failed\n{error.stderr}"
    chosen = [f"{TESTS / 'test_recipes.py'}::test_{name}"] if name in RECIPES else [str(TESTS / f"test_{name}.py")]
    tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen]  # all skipped: a failure
    examples = sorted((ROOT / "examples" / "integrations").glob(f"{name}_*.py"))
    if not examples and name in ADAPTERS:
        return f"no example examples/integrations/{name}_*.py"
    steps = {"tests": tests, **{example.name: [str(example)] for example in examples}}
    for what, arguments in steps.items():
        done = subprocess.run([python, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode or not done.stdout.strip():
            return f"{what} failed with {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    return None


def main(names: list[str]) -> int:
    """One line per adapter or recipe; 1 if any failed."""
    known = [*ADAPTERS, *RECIPES]
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise SystemExit(f"no adapter {', '.join(unknown)}; there are {', '.join(known)}")
    failures = []
    for name in names or known:
        began = time.monotonic()
        wrong = check(name)
        print(f"{name:<22} {'failed' if wrong else 'ok':<7} {time.monotonic() - began:5.0f} s", flush=True)  # noqa: T201
        if wrong:
            failures.append(f"-- {name}: {wrong}")
    print("\n".join(failures), file=sys.stderr)  # noqa: T201
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

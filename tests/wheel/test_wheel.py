"""The built wheel, in an environment with nothing else: what a user gets from the package index."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONSTRAINTS = ROOT / "requirements" / "dev.txt"


def run(*words, cwd, check=True):
    """Without this checkout on the path of modules, and with pip's settings."""
    kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "HTTP", "SSL", "http"))}
    return subprocess.run(
        list(map(str, words)),
        capture_output=True,
        text=True,
        timeout=300,
        check=check,
        cwd=cwd,
        env={**kept, "PATH": "/usr/bin:/bin", "HOME": os.environ.get("HOME", "/")},
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy: setuptools leaves a folder behind, whose old files would get into the next wheel."""
    place, dist = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, place)
    shutil.copytree(ROOT / "src", place / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", dist, place, cwd=place)
    (found,) = dist.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def empty(wheel, tmp_path_factory):
    """An environment with the wheel and its core dependencies; the extras come later."""
    home = tmp_path_factory.mktemp("env")
    venv.create(home, with_pip=True)
    install(home, str(wheel))
    return home


def install(home, what):
    run(home / "bin" / "python", "-m", "pip", "install", "-q", "-c", CONSTRAINTS, what, cwd=home)


def test_the_wheel(wheel, empty, tmp_path):
    python, command = empty / "bin" / "python", empty / "bin" / "bot-orch"
    readme = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[0]
    assert "> slow" in run(python, "-c", readme, cwd=tmp_path).stdout

    missing = run(command, "serve", "nowhere.yaml", cwd=tmp_path, check=False)
    assert missing.returncode == 2 and "pip install 'bot-orchestrator[service]'" in missing.stderr
    assert "Traceback" not in missing.stderr

    install(empty, f"{wheel}[service]")
    run(command, "init", "bot-orch.yaml", cwd=tmp_path)
    run(command, "validate", "bot-orch.yaml", cwd=tmp_path)
    with subprocess.Popen(
        [command, "serve", "bot-orch.yaml", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
    ) as serving:
        try:
            address = re.search(r"http://[\w.:]+", serving.stdout.readline()).group()
            until_ready(f"{address}/health/ready")
            linked = set(re.findall(r"(?:href|src)=\"(/static/[^\"]+)\"", fetched(f"{address}/")))
            assert len(linked) >= 2
            for path in linked:
                assert fetched(address + path), path
        finally:
            serving.terminate()
        assert serving.wait(30) in (0, -signal.SIGTERM)


def until_ready(address, patience_s=30.0):
    """The port is open while the log is still read."""
    end = time.monotonic() + patience_s
    while True:
        try:
            return fetched(address)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code != 503 or time.monotonic() > end:
                raise
            time.sleep(0.05)


def fetched(address):
    with urllib.request.urlopen(address, timeout=10) as answer:  # noqa: S310
        assert answer.status == 200
        return answer.read().decode()


def test_only_the_package_is_in_it(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} <= {
        "bot_orch",
        next(n for n in names if ".dist-info" in n).split("/")[0],
    }
    assert any(name.endswith("py.typed") for name in names)

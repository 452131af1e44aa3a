"""The built wheel in environments with nothing else, outside the checkout: a user's jobs by the documented commands."""

import fcntl
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
from contextlib import contextmanager
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "gateway"))

from endpoint import Endpoint

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
SERVICE = "pip install 'bot-orchestrator[service]'"
CHATS = """
import sys
from openai import OpenAI

client = OpenAI(base_url=sys.argv[1], api_key="none")
for number in range(40):
    asked = [{"role": "user", "content": f"Question {number}: what is {number} + 1?"}]
    raw = client.chat.completions.with_raw_response.create(model="auto", messages=asked)
    assert raw.parse().choices[0].message.content == "The answer"
    good = raw.headers["x-bot-orch-agent"] == "good"
    report = {"decision_id": raw.headers["x-bot-orch-decision-id"], "reward": float(good)}
    client.post("/feedback", body=report, cast_to=object)
stream = client.chat.completions.create(model="auto", messages=asked, stream=True)
print("".join(piece.choices[0].delta.content or "" for piece in stream if piece.choices))
"""


def run(*words, cwd, check=True):
    """Without this checkout on the path of modules, and with pip's settings."""
    done = subprocess.run(
        list(map(str, words)), capture_output=True, text=True, timeout=300, cwd=cwd, env=environment(), check=False
    )
    assert not check or done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done


def environment():
    kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "HTTP", "SSL", "http"))}
    return {**kept, "PATH": "/usr/bin:/bin", "HOME": os.environ.get("HOME", "/")}


@contextmanager
def made_once(tmp_path_factory, name):
    """A folder for all processes of pytest-xdist, and whether this one is to fill it; the others wait."""
    place = tmp_path_factory.getbasetemp()
    place = place.parent if "PYTEST_XDIST_WORKER" in os.environ else place
    folder = place / f"wheel-{name}"
    with (place / f"wheel-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        first = not (folder / "made").exists()
        folder.mkdir(exist_ok=True)
        yield folder, first
        (folder / "made").touch()


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """Built from a copy: setuptools leaves a folder behind, whose old files would get into the next wheel."""
    with made_once(tmp_path_factory, "dist") as (dist, first):
        if first:
            (source := dist / "source").mkdir()
            for name in ("pyproject.toml", "README.md", "LICENSE"):
                shutil.copy(ROOT / name, source)
            shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
            run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", dist, source, cwd=dist)
    (found,) = dist.glob("*.whl")
    return found


def install(home, *what):
    """By the pip of this interpreter: the environment needs none of its own. No versions are prescribed."""
    pip = (sys.executable, "-m", "pip", "--python", home / "bin" / "python")
    run(*pip, "install", "-q", "--no-compile", *what, cwd=home)


@pytest.fixture(scope="session")
def bare(wheel, tmp_path_factory):
    """The programs of a new environment with the wheel, and nothing else."""
    with made_once(tmp_path_factory, "bare") as (home, first):
        if first:
            venv.create(home)
            install(home, wheel)
    return home / "bin"


@pytest.fixture(scope="session")
def service(wheel, bare, tmp_path_factory):
    """With the extra and OpenAI's client; what the library depends on is that of the other environment."""
    with made_once(tmp_path_factory, "service") as (home, first):
        if first:
            venv.create(home)
            (packages,) = home.glob("lib/python*/site-packages")
            (packages / "bare.pth").write_text(str(bare.parent / packages.relative_to(home)))
            install(home, "--no-deps", "--ignore-installed", wheel)  # with its program
            install(home, f"{wheel}[service]", "openai")
    return home / "bin"


@contextmanager
def serving(service, folder):
    with subprocess.Popen(
        [service / "bot-orch", "serve", "bot-orch.yaml", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment(),
    ) as process:
        try:
            address = re.search(r"http://[\w.:]+", process.stdout.readline()).group()
            until_ready(f"{address}/health/ready")
            yield address
        finally:
            process.terminate()
        assert process.wait(60) in (0, -signal.SIGTERM)


def until_ready(address, patience_s=60.0):
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


def example(programs, name, folder):
    """Run a copy of an example."""
    for each in (name, "evaluations.csv"):
        shutil.copy(EXAMPLES / each, folder)
    return run(programs / "python", name, cwd=folder).stdout


def test_only_the_package_is_in_it(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} <= {
        "bot_orch",
        next(n for n in names if ".dist-info" in n).split("/")[0],
    }
    assert any(name.endswith("py.typed") for name in names)


def test_library(bare, tmp_path):
    readme = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[0]
    assert "to large" in run(bare / "python", "-c", readme, cwd=tmp_path).stdout


@pytest.mark.parametrize("name", ["04_save_and_restore.py", "15_text_on_a_budget.py", "17_arena_on_a_table.py"])
def test_examples_of_the_library(name, bare, tmp_path):
    assert example(bare, name, tmp_path)


def test_arena_on_a_csv(bare, tmp_path):
    shutil.copy(EXAMPLES / "evaluations.csv", tmp_path)
    words = ("--policies", "ucb1", "--baseline", "large", "--seeds", "2", "--jobs", "1", "--quiet", "--out", "out")
    run(bare / "bot-orch", "arena", "evaluations.csv", *words, cwd=tmp_path)
    assert (tmp_path / "out" / "verdict.json").exists()


def test_what_needs_the_service_says_how_to_get_it(bare, tmp_path):
    missing = run(bare / "bot-orch", "serve", "nowhere.yaml", cwd=tmp_path, check=False)
    assert missing.returncode == 2 and SERVICE in missing.stderr
    assert "Traceback" not in missing.stderr
    router = "from bot_orch import Router; Router(['a', 'b'], path='log.sqlite')"
    missing = run(bare / "python", "-c", router, cwd=tmp_path, check=False)
    assert missing.returncode == 1 and SERVICE in missing.stderr


@pytest.mark.parametrize("name", ["11_offline_evaluation.py", "14_durable_file.py"])
def test_examples_with_a_file(name, service, tmp_path):
    assert example(service, name, tmp_path)


def test_a_page_with_all_its_files(service, tmp_path):
    run(service / "bot-orch", "quickstart", "--write", "--simulated", "--yes", "bot-orch.yaml", cwd=tmp_path)
    run(service / "bot-orch", "validate", "bot-orch.yaml", cwd=tmp_path)
    with serving(service, tmp_path) as address:
        linked = set(re.findall(r"(?:href|src)=\"(/static/[^\"]+)\"", fetched(f"{address}/")))
        assert len(linked) >= 2
        for path in linked:
            assert fetched(address + path), path


def test_chats_by_the_official_client_then_an_evaluation_of_their_log(service, tmp_path):
    endpoint, command = Endpoint(), service / "bot-orch"
    try:
        words = [f"--endpoint={name}={endpoint.script({})},{name}" for name in ("good", "bad")]
        run(command, "quickstart", "--yes", "--once", "--no-browser", "--port", "0", *words, cwd=tmp_path)
        with serving(service, tmp_path) as address:
            assert run(service / "python", "-c", CHATS, f"{address}/v1", cwd=tmp_path).stdout == "The answer\n"
    finally:
        endpoint.close()
    words = ("--policy", "logged", "agent:good", "--min-effective", "3")
    table = run(command, "evaluate", "bot-orch.sqlite", *words, cwd=tmp_path).stdout
    assert "44 decisions, 4 without reward" in table
    assert "agent:good" in table and "refused" not in table

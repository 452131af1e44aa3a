"""The command line, run as a user would."""

import csv
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bot_orch.cli import main
from bot_orch.cli.main import build_parser
from bot_orch.lab.harness import engines
from bot_orch.lab.harness.experiment import discover
from bot_orch.lab.harness.tables import COLUMNS

QUICK = ["reproduce", "--only", "triage-lambda", "--quick", "--quiet", "--jobs", "1"]


def command(*words, **options):
    return subprocess.run(
        [sys.executable, "-m", "bot_orch", *words], capture_output=True, text=True, timeout=120, check=False, **options
    )


def module(code, folder, *words):
    """Run `code` as ``python -m`` does: only there an interrupt that was handled can still end the process."""
    (folder / "program.py").write_text(code)
    started = [sys.executable, "-m", "program", *words]
    return subprocess.run(started, capture_output=True, text=True, timeout=120, check=False, cwd=folder)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a run that nothing disturbed."""
    out = tmp_path_factory.mktemp("whole")
    assert main([*QUICK, "--out", str(out)]) == 0
    return out


def test_reproduce_writes_tables_figures_and_a_page(whole):
    with (whole / "tables.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    assert ",".join(COLUMNS) == (
        "experiment,environment,protocol,method,lambda,metric,mean,std,ci95,seeds,paper_mean,paper_spread"
        ",paper_error,z,basis"
    )
    assert {row["environment"] for row in rows} == {"triage-iid", "triage-noniid"}
    assert {row["protocol"] for row in rows} == {"paper", "deployable"}
    assert all(float(row["mean"]) == float(row["mean"]) for row in rows)
    page = (whole / "index.html").read_text()
    assert 'class="in"' in page and "paper protocol" in page and "data:image/png;base64," in page
    assert "<b>This is a preview</b>: 5 seeds in the paper's tables, where a full run has 600" in page.replace(
        "&#x27;", "'"
    )
    assert "have more seeds than the paper's behind 0 of" in page and "600 seeds (" not in page
    assert 'src="http' not in page and 'href="http' not in page, "the page must need nothing else"
    assert {p.suffix for p in (whole / "figures").iterdir()} == {".png", ".svg"}


def test_results_are_overwritten_only_by_force(whole, tmp_path, capsys):
    out = shutil.copytree(whole, tmp_path / "out")
    (out / "tables.csv").write_text("mine")
    assert main([*QUICK, "--out", str(out)]) == 2
    assert "pass --force" in capsys.readouterr().err and (out / "tables.csv").read_text() == "mine"
    assert main([*QUICK, "--out", str(out), "--force"]) == 0
    assert "report:" in capsys.readouterr().out
    assert (out / "tables.csv").read_bytes() == (whole / "tables.csv").read_bytes()


def test_an_interrupted_run_resumes(whole, tmp_path, monkeypatch):
    calls = []
    real = engines.run_local

    def cut(jobs, processes):
        for index, result in enumerate(real(jobs, processes)):
            if index == 7:
                raise KeyboardInterrupt
            calls.append(result[0])
            yield result

    monkeypatch.setattr(engines, "run_local", cut)
    out = tmp_path / "cut"
    assert main([*QUICK, "--out", str(out)]) == 130
    assert not (out / "tables.csv").exists()
    with (out / "results.jsonl").open("a") as file:
        file.write('{"experiment": "triage-lambda", "un')  # a line cut off by a crash
    counted = []

    def count(jobs, processes):
        counted.extend(jobs)
        return real(jobs, processes)

    monkeypatch.setattr(engines, "run_local", count)
    assert main([*QUICK, "--out", str(out)]) == 0
    assert (out / "tables.csv").read_bytes() == (whole / "tables.csv").read_bytes()
    total = len((out / "results.jsonl").read_text().splitlines())
    assert len(counted) == total - 7, "what was done is not done again"


def test_an_unfinished_run_with_other_settings_is_not_mixed_in(tmp_path, capsys):
    (tmp_path / "settings.json").write_text(json.dumps({"experiments": ["other"]}))
    assert main([*QUICK, "--out", str(tmp_path)]) == 2
    assert "other settings" in capsys.readouterr().err


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe", b"[]"])
def test_damaged_settings_are_not_gone_on_with(damage, tmp_path, capsys):
    (tmp_path / "settings.json").write_bytes(damage)
    assert main([*QUICK, "--out", str(tmp_path)]) == 2
    assert "other settings; pass --force" in capsys.readouterr().err


def test_same_bytes_with_any_number_of_jobs(whole, tmp_path):
    assert main([*QUICK[:-1], "2", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "tables.csv").read_bytes() == (whole / "tables.csv").read_bytes()


def test_every_command_has_help_with_an_example(capsys):
    actions = build_parser()._subparsers._group_actions[0]
    assert "reproduce" in actions.choices
    for name in actions.choices:
        with pytest.raises(SystemExit) as stop:
            main([name, "--help"])
        assert stop.value.code == 0
        assert f"bot-orch {name}" in capsys.readouterr().out.split("example", 1)[1]


def test_list_names_every_experiment(capsys):
    assert main(["reproduce", "--list"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == list(discover())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "nonsense"], "--only: no experiment 'nonsense'; choose from"),
        (["--jobs", "0"], "--jobs: is 0"),
        (["--seeds", "0"], "--seeds: is 0"),
    ],
)
def test_bad_arguments_get_one_line(words, message, capsys, tmp_path):
    assert main(["reproduce", *words, "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert message in error and len(error.strip().splitlines()) == 1


def test_errors_show_no_traceback(tmp_path):
    (tmp_path / "file").write_text("")
    done = command("reproduce", "--only", "triage-lambda", "--quick", "--out", str(tmp_path / "file" / "below"))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


INTERRUPT = """
import os, signal, sys
def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
"""
STARTS = {
    "while commands are imported": """
import pkgutil
pkgutil.iter_modules = lambda path: interrupt()
""",
    "while a command runs": """
from bot_orch.lab.harness import engines
engines.run_local = lambda jobs, processes: interrupt()
""",
    "within source text that is executed": """
from bot_orch.lab.harness import engines
engines.run_local = lambda jobs, processes: exec("interrupt()", globals())
""",
}
RUN = """
from bot_orch.cli import run_and_exit
run_and_exit()
"""


@pytest.fixture(scope="module", autouse=True)
def _fonts_are_known():
    """Else a process that draws may say first that it looks for fonts."""
    import matplotlib.font_manager  # noqa: F401


@pytest.fixture
def _ctrl_c_works():
    """A process started in the background of a script is deaf to Ctrl-C, and so are its children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_ctrl_c_works")
@pytest.mark.parametrize("moment", STARTS)
def test_ctrl_c_says_how_to_go_on(moment, tmp_path):
    done = module(INTERRUPT + STARTS[moment] + RUN, tmp_path, *QUICK, "--out", "out")
    assert done.returncode == 130, done.stderr
    assert done.stderr == "\nbot-orch: interrupted; run the same command again to go on\n"


@pytest.mark.usefixtures("_ctrl_c_works")
def test_ctrl_c_after_the_work_does_not_change_the_status(tmp_path):
    late = "import atexit\natexit.register(interrupt)\n"
    done = module(INTERRUPT + late + RUN, tmp_path, "reproduce", "--list")
    assert (done.returncode, done.stderr) == (0, "") and "triage-lambda" in done.stdout


@pytest.mark.usefixtures("_ctrl_c_works")
def test_without_the_entry_point_an_interrupt_dies_of_the_signal(tmp_path):
    """The control: what the entry point guards against does happen."""
    bare = "from bot_orch.cli import main\nsys.exit(main(sys.argv[1:]))\n"
    moment = STARTS["within source text that is executed"]
    assert module(INTERRUPT + moment + bare, tmp_path, *QUICK, "--out", "out").returncode == -signal.SIGINT


@pytest.mark.usefixtures("_ctrl_c_works")
def test_a_real_ctrl_c_while_running(tmp_path):
    words = [sys.executable, "-m", "bot_orch", "reproduce", "--only", "triage", "--out", str(tmp_path), "--jobs", "1"]
    words += ["--seeds", "2000"]  # far longer than the test
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not (tmp_path / "results.jsonl").exists():
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in error and "run the same command again" in error


def test_import_is_light():
    code = (
        "import sys, bot_orch; heavy = {'sklearn', 'matplotlib', 'ot', 'pandas', 'ray'} & set(sys.modules);"
        "print(sorted(heavy)); sys.exit(bool(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_public_names_are_sorted_and_exist():
    import bot_orch

    assert bot_orch.__all__ == sorted(bot_orch.__all__)
    assert all(hasattr(bot_orch, name) for name in bot_orch.__all__)


def test_version(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    from bot_orch import __version__

    assert __version__ in capsys.readouterr().out
    assert f"## {__version__}" in Path(__file__).parents[2].joinpath("CHANGELOG.md").read_text()

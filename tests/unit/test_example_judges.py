"""Each judge of examples/judges.py judges an answer, named in a configuration as its text says."""

import asyncio
import shutil
from pathlib import Path

import pytest

from bot_orch.service.judges.answer import AnswerGiven
from bot_orch.service.judges.functions import FunctionJudge, FunctionSettings

SOURCE = Path(__file__).parents[2] / "examples" / "judges.py"
CHECK = "import sys\ncode = open(sys.argv[1]).read()\nprint('1 failed')\nsys.exit('return a + b' not in code)\n"
PROGRAM = "#!/bin/sh\ncat > seen.json\necho 0.25\necho too long\n"
TOOL = ({"role": "user", "content": "go"}, {"role": "tool", "tool_call_id": "1", "content": "Error: no such file"})


@pytest.fixture
def judge(tmp_path, monkeypatch):
    """What a function of the file says of an answer; its programs are beside it."""
    shutil.copy(SOURCE, tmp_path / "own_judges.py")
    (tmp_path / "check.py").write_text(CHECK)
    (tmp_path / "judge").write_text(PROGRAM)
    (tmp_path / "judge").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "own_judges", raising=False)

    def say(function, text, **about):
        found = FunctionJudge(FunctionSettings(f"own_judges:{function}", str(tmp_path)), 1)
        return asyncio.run(found.verdict(AnswerGiven("d", "a", text=text, **about)))

    return say


def test_every_judge_of_the_file_is_tested():
    functions = {line[4:].partition("(")[0] for line in SOURCE.read_text().splitlines() if line.startswith("def ")}
    assert functions == {"has_number", "passes_tests", "printed_by_a_program", "ends_well"}


def test_a_pattern(judge):
    assert judge("has_number", "42").value == 1.0
    assert judge("has_number", "none")[:2] == (0.0, "the answer has no number")


def test_a_unit_test(judge):
    good, bad = ("```py\ndef f(a, b):\n    return a + b\n```", "```py\npass\n```")
    assert judge("passes_tests", good, kind="code").value == 1.0
    failed = judge("passes_tests", bad, kind="code")
    assert (failed.value, failed.reason) == (0.0, "1 failed")
    assert judge("passes_tests", bad, kind="letter").value is None, "another kind of task"


def test_a_program(judge, tmp_path):
    assert judge("printed_by_a_program", "a long text", question="why?")[:2] == (0.25, "too long")
    assert '"answer": "a long text"' in (tmp_path / "seen.json").read_text()


def test_signals_of_the_answer(judge):
    assert judge("ends_well", " ").value == 0.0
    assert judge("ends_well", "", finish_reason="tool_calls").value is None
    assert judge("ends_well", "It", finish_reason="length").value == 0.3
    assert judge("ends_well", "Sorry", messages=TOOL).value == 0.0
    assert judge("ends_well", "Fine").value is None

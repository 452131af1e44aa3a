"""What a user may get wrong on the command line gets one line that says so, and status 2."""

import subprocess
import sys

import pytest

from bot_orch.cli import main
from bot_orch.files import write_atomically


def refused(capsys, *words):
    assert main([str(word) for word in words]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("bot-orch: ")
    return line


@pytest.fixture
def configured(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("version: 1\nagents: [{id: a, kind: simulated}]\n")
    return file


@pytest.mark.parametrize("command", ["serve", "validate"])
def test_a_configuration_that_is_not_text(command, tmp_path, capsys):
    (tmp_path / "c.yaml").write_bytes(b"version: 1\n\xff")
    assert "is not UTF-8 (byte 11)" in refused(capsys, command, tmp_path / "c.yaml")


@pytest.mark.parametrize("port", [-1, 65_536])
def test_a_port_that_is_none(port, configured, capsys):
    assert "config.listen.port: expected `int`" in refused(capsys, "serve", configured, "--port", port)


@pytest.mark.parametrize("command", ["serve", "validate"])
def test_a_configuration_that_is_missing_or_a_folder(command, tmp_path, capsys):
    assert "does not exist; name another file" in refused(capsys, command, tmp_path / "none.yaml")
    assert f"{tmp_path}: is a folder; name a file" in refused(capsys, command, tmp_path)


@pytest.mark.parametrize(
    "words", [["replay"], ["report"], ["export"], ["erase", "--user", "ada"], ["evaluate", "--policy", "uniform", "--"]]
)
def test_a_folder_instead_of_a_log(words, tmp_path, capsys):
    more = [tmp_path / "a.csv"] if words == ["export"] else []
    said = refused(capsys, *words, tmp_path, *more)
    assert said == f"bot-orch: log: {tmp_path} is a folder; pass the path of a log"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "bot-orch: the following arguments are required: COMMAND; see bot-orch --help"),
        (["evaluate", "a.sqlite"], "evaluate: the following arguments are required: --policy; see bot-orch evaluate"),
        (["serve", "c.yaml", "--port", "x"], "bot-orch serve: argument --port: invalid int value: 'x'; see"),
        (["report", "a.sqlite", "--wrong"], "unrecognized arguments: --wrong; see bot-orch"),
    ],
)
def test_wrong_words_get_one_line(words, said, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words)
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert said in line and stop.value.code == 2


def test_erase_without_a_subject_names_both_ways(tmp_path, capsys):
    assert "say whose decisions to erase, or with --texts-older-than" in refused(capsys, "erase", tmp_path / "a.sqlite")


@pytest.mark.parametrize("words", [["quickstart", "--write", "--yes", "--force"]])
def test_a_folder_instead_of_a_file(words, tmp_path, capsys):
    assert f"{tmp_path}: is not a file" in refused(capsys, *words, tmp_path)


def test_only_files_give_way(tmp_path):
    with pytest.raises(FileExistsError, match="is not a file"):
        write_atomically(tmp_path, b"")
    (tmp_path / "device").symlink_to("/dev/null")
    with pytest.raises(FileExistsError, match="is not a file"):
        write_atomically(tmp_path / "device", b"")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_atomically(tmp_path / "link", b"written")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "target").read_bytes() == b"written"


IMPORT = ["import", "--from", "csv", "a.csv", "--out", "b.sqlite"]


@pytest.mark.parametrize(
    "words",
    [["serve", "c.yaml"], ["validate", "c.yaml"], ["replay", "a.sqlite"], ["quickstart"], IMPORT],
    ids=lambda words: words[0],
)
def test_without_the_extra_it_is_named(words):
    code = "import sys; sys.modules['msgspec'] = None; from bot_orch.cli import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.strip().endswith("[service]'") and done.stderr.count("\n") == 1


def test_a_reader_that_leaves_is_no_error():
    with subprocess.Popen(
        [sys.executable, "-m", "bot_orch", "validate", "--schema"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        assert process.wait(60) == 141
        assert process.stderr.read() == b""

"""What a user may get wrong on the command line gets one line that says so, and status 2."""

import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rate", "0"], "--rate: is 0"),
        (["--rate", "nan"], "--rate: is nan"),
        (["--seconds", "-1"], "--seconds: is -1"),
        (["--seconds", "inf"], "--seconds: is inf"),
        (["--port", "70000"], "config.listen.port: expected `int` <= 65535"),
    ],
)
def test_demo(words, message, capsys):
    assert message in refused(capsys, "demo", *words)


@pytest.mark.parametrize("words", [["replay"], ["export"], ["evaluate", "--policy", "uniform", "--"]])
def test_a_folder_instead_of_a_log(words, tmp_path, capsys):
    more = [tmp_path / "a.csv"] if words == ["export"] else []
    assert str(tmp_path) in refused(capsys, *words, tmp_path, *more)


@pytest.mark.parametrize("words", [["init", "--force"]])
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


@contextmanager
def web_server(body):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(daemon=True, target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.0 200 OK\r\n\r\n<html>",
        b"HTTP/1.0 200 OK\r\n\r\n[]",
        b"HTTP/1.0 200 OK\r\n\r\n{}",
        b"HTTP/1.0 200 OK\r\n\r\n\xff",
        b"SSH-2.0-server\r\n",
    ],
)
def test_queue_of_another_service(answer, capsys):
    with web_server(answer) as url:
        assert f"{url}: does not answer as bot-orch does" in refused(capsys, "queue", "--url", url, "list")


@pytest.mark.parametrize("url", ["here", "http://127.0.0.1:port", "http://127.0.0.1:80/a b"])
def test_queue_at_no_address(url, capsys):
    assert f"--url: is {url}" in refused(capsys, "queue", "--url", url, "list")


def test_options_of_the_queue_are_understood_after_the_action(capsys):
    assert "--url: is here" in refused(capsys, "queue", "list", "--url", "here")


@pytest.mark.parametrize(
    "words",
    [["serve", "c.yaml"], ["demo"], ["validate", "c.yaml"], ["replay", "a.sqlite"], ["quickstart"], ["doctor"]],
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

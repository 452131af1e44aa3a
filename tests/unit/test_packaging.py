"""What is installed holds every file that the package reads, not its modules alone."""

import subprocess
import sys
import tomllib
from pathlib import Path

import bot_orch

PACKAGE = Path(bot_orch.__file__).parent
PYPROJECT = PACKAGE.parents[1] / "pyproject.toml"


def beside_modules(package):
    """Files of a package that setuptools leaves out unless it is told of them."""
    found = (path.relative_to(package) for path in package.rglob("*") if path.is_file())
    return {
        str(path) for path in found if path.suffix not in (".py", ".pyc", ".so") and "__pycache__" not in path.parts
    }


def packaged(package, globs):
    """What the globs of ``package-data`` select; they are read as those of :meth:`Path.glob` are."""
    return {str(path.relative_to(package)) for glob in globs for path in package.glob(glob) if path.is_file()}


def globs():
    settings = tomllib.loads(PYPROJECT.read_text())["tool"]["setuptools"]
    assert settings["packages"]["find"] == {"where": ["src"]} and set(settings["package-data"]) == {"bot_orch"}
    return settings["package-data"]["bot_orch"]


def test_no_file_is_missing_from_the_wheel():
    assert beside_modules(PACKAGE) - packaged(PACKAGE, globs()) == set()


def test_no_glob_is_idle():
    for glob in globs():
        assert packaged(PACKAGE, [glob]), glob


def test_a_forgotten_kind_of_file_is_caught(tmp_path):
    for name in ("a.py", "page/a.css", "page/icon.svg", "page/__pycache__/a.cpython-311.pyc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert beside_modules(tmp_path) - packaged(tmp_path, ["**/*.css"]) == {"page/icon.svg"}
    assert packaged(tmp_path, ["**/*.css", "**/*.svg"]) == beside_modules(tmp_path)


def test_what_the_pages_name_is_there():
    static = {path.name for path in (PACKAGE / "service" / "web" / "static").iterdir()}
    base = (PACKAGE / "service" / "web" / "templates" / "base.html").read_text()
    named = {part.split("?")[0].split('"')[0] for part in base.split("/static/")[1:]}
    assert named and named <= static


def test_the_wheel_is_tested_where_the_package_is_not_installed():
    """As in the workflow, where every version of Python has pytest, NumPy and hypothesis alone."""
    folder = PYPROJECT.parent / "tests" / "wheel"
    words = f"import sys; sys.modules['bot_orch'] = None; sys.path.insert(0, {str(folder)!r}); import test_wheel"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

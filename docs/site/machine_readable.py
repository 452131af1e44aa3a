"""The site for programs that read: ``llms.txt`` and the Python interface as plain Markdown."""

import ast
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[2] / "src"


def llms_txt(name: str, description: str, nav: Any, pages: dict[str, str]) -> str:
    """List the pages by section, each with its first sentence (https://llmstxt.org)."""
    parts = [f"# {name}", f"> {description}", "Every page of this site is also there as Markdown, under the same name."]
    for entry in nav:
        ((section, listed),) = entry.items() if isinstance(entry, dict) else [("Home", entry)]
        rows = [f"- [{title(pages[page])}]({page}): {first_sentence(pages[page])}" for page in leaves(listed)]
        parts.append(f"## {section}\n\n" + "\n".join(rows))
    return "\n\n".join(parts) + "\n"


def leaves(nav: Any) -> list[str]:
    """List the pages of a part of the navigation."""
    if isinstance(nav, str):
        return [nav]
    return [leaf for each in (nav.values() if isinstance(nav, dict) else nav) for leaf in leaves(each)]


def title(markdown: str) -> str:
    """Return the first heading of a page."""
    return match[1] if (match := re.search(r"^# (.+)$", markdown, re.MULTILINE)) else "untitled"


def first_sentence(markdown: str) -> str:
    """Return the first sentence of running text of a page, without its links."""
    for block in re.sub(r"```.*?```", "", markdown, flags=re.DOTALL).split("\n\n"):
        text = " ".join(block.split())
        if re.match(r"[A-Z`*\[]", text) and not text.startswith("!["):
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
            return re.split(r"(?<=[.?]) ", plain)[0][:200].rstrip(":")
    return ""


def reference_text(module: str, names: list[str]) -> str:
    """Render signatures and docstrings of the public names of a module, methods included."""
    try:
        loaded = importlib.import_module(module)
    except ImportError:  # an adapter whose framework is not installed here
        path = SOURCE / f"{module.replace('.', '/')}.py"
        return f"# {module}\n\n{ast.get_docstring(ast.parse(path.read_text()))}\n"
    parts = [f"# {module}", inspect.getdoc(loaded) or ""]
    for name in names:
        found = getattr(loaded, name)
        parts.append(described(name, found, level=2))
        if inspect.isclass(found):
            methods = inspect.getmembers(found, inspect.isroutine)
            parts += [described(f"{name}.{key}", each, level=3) for key, each in methods if key[0] != "_"]
    return "\n\n".join(parts) + "\n"


def described(name: str, found: Any, *, level: int) -> str:
    """Render one name: heading, signature, docstring."""
    if not callable(found):
        return f"{'#' * level} {name}"
    try:
        signature = str(inspect.signature(found))
    except (TypeError, ValueError):
        signature = "(...)"
    return f"{'#' * level} {name}\n\n```python\n{name}{signature}\n```\n\n{inspect.getdoc(found) or ''}"

"""What the site adds to docs/: files outside of it, the API reference, tables made from the code, the notebook.

Links are written for readers of the repository and tested there (``tests/unit/test_docs.py``). In the site, a file
outside of docs/ becomes a page of its own under ``source/``, and links to it lead there.
"""

import ast
import fnmatch
import os
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))
from generated import filled
from machine_readable import llms_txt, reference_text
from notebooks import executed

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
FENCE = re.compile(r"(```.*?```)", re.DOTALL)
LANGUAGES = {".py": "python", ".yaml": "yaml", ".json": "json", ".sh": "bash"}
LOADED = re.compile(
    r"""<(?:script|link|img|iframe|source|object|embed)\b[^>]*\b(?:src|href|data)=["']?(?:https?:)?//[^>]*"""
)
STYLED = re.compile(r"""(?:url\(|@import)\s*["']?(?:https?:)?//[^)]*""")
ALWAYS = ("CHANGELOG.md", "CONTRIBUTING.md", "skill/SKILL.md")
FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n+", re.DOTALL)
BOOST = {"adr": 0.2, "source": 0.2, "reference": 3.0}  # of search results, by folder
MARKDOWN: dict[str, str] = {}  # name of a page -> its text, as the site offers it to programs


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    pages = {"index.md": translated(ROOT / "README.md", "index.md")}
    pages |= {address(ROOT / name): shown(ROOT / name) for name in ALWAYS}
    pages |= {address(path): shown(path) for path in sorted(outside(DOCS.rglob("*.md")))}
    pages |= {f"reference/python/{module}.md": reference(module) for module in public_modules()}
    for path in sorted(DOCS.rglob("*.ipynb")):
        name = path.relative_to(DOCS).with_suffix(".md")
        text, pictures = executed(path)
        pages[str(name)] = text
        for picture, content in pictures.items():
            files.append(File.generated(config, str(name.parent / picture), content=content))
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    config.nav = expanded(config.nav, sorted(file.src_uri for file in files.documentation_pages()))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Turn links that leave docs/ into links to the generated pages."""
    name = page.file.src_uri
    page.meta["search"] = {"boost": BOOST.get(name.partition("/")[0], 1.0)}
    text = markdown if page.file.generated_by else filled(rewritten(markdown, DOCS / name, name))
    module = re.fullmatch(r"reference/python/(.*)\.md", name)
    MARKDOWN[name] = reference_text(module[1], public_names(module[1])) if module else text
    return text


def on_post_build(config: MkDocsConfig) -> None:
    """Write every page as Markdown too, with llms.txt as their list, and check what was built."""
    site = Path(config.site_dir)
    for name, text in MARKDOWN.items():
        (site / name).write_text(text)
    (site / "llms.txt").write_text(llms_txt(config.site_name, config.site_description, config.nav, MARKDOWN))
    refuse_foreign_resources(config)
    index = (site / "search" / "search_index.json").read_text()
    if "Orchestrator.decide" not in index:
        raise PluginError("the search index lacks Orchestrator.decide: see the options of mkdocstrings in mkdocs.yml")


def refuse_foreign_resources(config: MkDocsConfig) -> None:
    """Refuse a page that loads something from elsewhere; links to other sites are fine."""
    for path in sorted(Path(config.site_dir).rglob("*")):
        found = {".html": LOADED, ".css": STYLED}.get(path.suffix)
        if found and (match := found.search(path.read_text())):
            raise PluginError(f"{path.relative_to(config.site_dir)}: loads from elsewhere: {match[0][:120]}")


def public_modules() -> list[str]:
    """The modules in the table of docs/reference/map.md."""
    table = (DOCS / "reference" / "map.md").read_text().partition("## The public interface")[2]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return sorted(name for row in rows for name in re.findall(r"`(bot_orch[\w.]*)`", row))


def reference(module: str) -> str:
    """The page of a module: what its docstring says, then each public name."""
    parts = [f"# {module}", f"::: {module}\n    options: {{members: false, show_root_heading: false}}"]
    return "\n\n".join(parts + [f"::: {module}.{name}" for name in public_names(module)]) + "\n"


def public_names(module: str) -> list[str]:
    """What ``__all__`` of a module lists; without one, its classes and functions. Nothing is imported.

    A name that only ``__getattr__`` knows is an old address of something, and is left out.
    """
    path = ROOT / "src" / module.replace(".", "/")
    tree = ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(getattr(to, "id", "") == "__all__" for to in node.targets):
            return [name for name in ast.literal_eval(node.value) if name in bound(tree) and name[0] != "_"]
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [node.name for node in tree.body if isinstance(node, kinds) and not node.name.startswith("_")]


def bound(tree: ast.Module) -> set[str]:
    """Names that a module imports, defines or assigns."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def outside(pages: Any) -> set[Path]:
    """Files beside docs/ that pages link to."""
    found = set()
    for page in [ROOT / "README.md", *(ROOT / name for name in ALWAYS), *pages]:
        for _, target, _ in LINK.findall("".join(FENCE.split(page.read_text())[::2])):
            path = resolved(page, target)
            if path and path.is_file() and not path.is_relative_to(DOCS) and path.name != "README.md":
                found.add(path)
    return found


def resolved(page: Path, target: str) -> Path | None:
    """The file that a link of a page leads to, or None if it is no file."""
    name = target.partition("#")[0]
    if not name or re.match(r"[a-z]+:", name):
        return None
    return Path(os.path.normpath(page.parent / name))


def address(path: Path) -> str:
    """Where the site shows a file of the repository."""
    if path.is_relative_to(DOCS):
        name = path.relative_to(DOCS)
        return str(name.with_suffix(".md") if name.suffix == ".ipynb" else name)
    if path == ROOT / "README.md":
        return "index.md"
    name = str(path.relative_to(ROOT))
    return f"source/{name}" if name.endswith(".md") else f"source/{name}.md"


def shown(path: Path) -> str:
    """A page with a file: Markdown as it is, anything else as code."""
    if path.suffix == ".md":
        return translated(path, address(path))
    text = path.read_text()
    fence = "`" * max(4, 1 + max(map(len, re.findall(r"`+", text)), default=0))
    return (
        f"# {path.name}\n\n`{path.relative_to(ROOT)}`\n\n{fence}{LANGUAGES.get(path.suffix, 'text')}\n{text}{fence}\n"
    )


def translated(path: Path, name: str) -> str:
    """A Markdown file from outside of docs/, with links for its place in the site."""
    return rewritten(FRONT_MATTER.sub("", path.read_text()), path, name)


def rewritten(markdown: str, path: Path, name: str) -> str:
    """Markdown of a file, with its links relative to its name in the site."""

    def link(match: re.Match[str]) -> str:
        found = resolved(path, match[2])
        if found is None or not found.is_file():
            return match[0]
        to = os.path.relpath(address(found), Path(name).parent)
        return match[1] + "#".join([to, *match[2].partition("#")[2:]]).rstrip("#") + match[3]

    parts = FENCE.split(markdown)
    return "".join(part if number % 2 else LINK.sub(link, part) for number, part in enumerate(parts))


def expanded(nav: Any, names: list[str]) -> Any:
    """The navigation with patterns replaced by the pages that match and are not named elsewhere."""
    named = set(leaves(nav))

    def expand(entries: list[Any]) -> list[Any]:
        found: list[Any] = []
        for entry in entries:
            if isinstance(entry, dict):
                found += [{key: expand(value) if isinstance(value, list) else value for key, value in entry.items()}]
            elif "*" in entry:
                matches = [name for name in names if matches_pattern(name, entry) and name not in named]
                if not matches:
                    raise PluginError(f"mkdocs.yml: nav: no page matches {entry}")
                named.update(matches)
                found += matches
            else:
                found += [entry]
        return found

    return expand(nav)


def matches_pattern(name: str, pattern: str) -> bool:
    """Whether a page matches a pattern: ``*`` stays within a folder, ``**`` does not."""
    return fnmatch.fnmatch(name, pattern) and ("**" in pattern or name.count("/") == pattern.count("/"))


def leaves(nav: Any) -> list[str]:
    """Everything that a navigation names."""
    if isinstance(nav, str):
        return [nav]
    return [leaf for each in (nav.values() if isinstance(nav, dict) else nav) for leaf in leaves(each)]

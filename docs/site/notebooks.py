"""Notebooks as pages: executed when the site is built, with what they print and draw."""

import base64
import re
import tempfile
from pathlib import Path

import nbclient
import nbformat
from jupyter_client.manager import AsyncKernelManager

STYLE = re.compile(r'<style.*?</style>|^\s+| border="1" class="dataframe"| style="[^"]*"', re.DOTALL | re.MULTILINE)


def executed(path: Path) -> tuple[str, dict[str, bytes]]:
    """Markdown of a notebook with its outputs, and its pictures by name; a cell that raises fails the build."""
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(path.parent)}}
    with tempfile.TemporaryDirectory() as folder:  # sockets in a folder: no port, nothing on the network
        kernel = AsyncKernelManager(kernel_name="python3", transport="ipc", ip=f"{folder}/kernel")
        nbclient.NotebookClient(notebook, km=kernel, timeout=300, resources=resources).execute()
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        parts += [_shown(output, path.stem, pictures) for output in cell.outputs]
    return "\n\n".join(part for part in parts if part) + "\n", pictures


def _shown(output: nbformat.NotebookNode, stem: str, pictures: dict[str, bytes]) -> str:
    if output.output_type == "stream":
        return f"```text\n{output.text.rstrip()}\n```" if output.name == "stdout" else ""
    data = output.get("data", {})
    if "image/png" in data:
        name = f"{stem}-{len(pictures) + 1}.png"
        pictures[name] = base64.b64decode(data["image/png"])
        return f"![What the cell draws]({name})"
    if "text/html" in data:
        table = STYLE.sub("", data["text/html"])
        return f'<div class="frame">{table}</div>'
    return f"```text\n{data['text/plain']}\n```" if "text/plain" in data else ""

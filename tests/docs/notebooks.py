"""The notebooks of examples/: their cells are run as Python here, and `python tests/docs/notebooks.py` writes
what they show into them.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def run(notebook: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The outputs of every cell of code, run one after another in one namespace."""
    names: dict[str, Any] = {"__name__": "__main__"}
    return [
        execute("".join(cell["source"]), names) for cell in notebook["cells"] if cell["cell_type"] == "code"
    ]


def execute(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """What a cell prints, and the value of its last line, as a notebook keeps them."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    said, value = io.StringIO(), None
    with contextlib.redirect_stdout(said):
        exec(compile(ast.Module(body, []), "cell", "exec"), names)  # noqa: S102
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307
    outputs: list[dict[str, Any]] = []
    if said.getvalue():
        text = said.getvalue().splitlines(keepends=True)
        outputs.append({"name": "stdout", "output_type": "stream", "text": text})
    if value is not None:
        data: dict[str, Any] = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_html_") and (html := value._repr_html_()):
            data["text/html"] = html.splitlines(keepends=True)
        if hasattr(value, "_repr_png_"):
            data["image/png"] = base64.b64encode(value._repr_png_()).decode()
        outputs.append(
            {"data": data, "execution_count": None, "metadata": {}, "output_type": "execute_result"}
        )
    return outputs


def write(path: Path, notebook: dict[str, Any]) -> None:
    """Runs a notebook and keeps it with what it shows."""
    coded = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, (cell, outputs) in enumerate(zip(coded, run(notebook), strict=True), 1):
        cell["execution_count"], cell["outputs"] = number, outputs
        for one in outputs:
            if "execution_count" in one:
                one["execution_count"] = number
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for path in NOTEBOOKS:
            write(path, json.loads(path.read_text()))

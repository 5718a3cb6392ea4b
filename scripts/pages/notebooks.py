"""Tutorials as notebooks: run them, and keep what they print and draw.

.venv/bin/python scripts/pages/notebooks.py docs/tutorials/*.ipynb

Plain JSON, run in this process: no Jupyter is needed to make them or to test them.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import pyplot

Notebook = dict[str, Any]


def read(path: Path) -> Notebook:
    """A notebook from its file."""
    found: Notebook = json.loads(path.read_text(encoding="utf-8"))
    return found


def source(cell: dict[str, Any]) -> str:
    """A cell's text."""
    return "".join(cell["source"])


def run(notebook: Notebook, change: Callable[[str], str] = str) -> Notebook:
    """Run the cells in order in a folder of their own; `change` may make a cell's code quicker."""
    matplotlib.use("Agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    cells, number = [], 0
    with _elsewhere():
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                number += 1
                outputs = [*_outputs(change(source(cell)), names, number)]
                cell = {**cell, "outputs": outputs, "execution_count": number}
            cells.append(cell)
    return {**notebook, "cells": cells}


@contextlib.contextmanager
def _elsewhere() -> Iterator[None]:
    """Work in an empty folder."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def _outputs(code: str, names: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    """What a cell printed, its last value, its figures."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        value = _value(code, names)
    if printed.getvalue():
        yield {"output_type": "stream", "name": "stdout", "text": printed.getvalue()}
    figures = [*map(pyplot.figure, pyplot.get_fignums())]
    if value is not None and not figures:  # the axes of a figure tell nothing beside it
        data = {"text/plain": repr(value)}
        yield {
            "output_type": "execute_result",
            "data": data,
            "metadata": {},
            "execution_count": number,
        }
    for one in figures:
        yield {"output_type": "display_data", "data": {"image/png": _png(one)}, "metadata": {}}
    pyplot.close("all")


def _value(code: str, names: dict[str, Any]) -> Any:
    """Run code; the value of its last line, if that is an expression."""
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), names)
    if last is None:
        return None
    assert isinstance(last, ast.Expr)
    return eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)


def _png(figure: Any) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=90)
    return base64.b64encode(buffer.getvalue()).decode()


def markdown(notebook: Notebook) -> str:
    """A notebook as a page of the site."""
    parts = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            parts.append(source(cell))
            continue
        parts.append(f"```python\n{source(cell)}\n```")
        parts += [_shown(output) for output in cell["outputs"]]
    return "\n\n".join(parts) + "\n"


def _shown(output: dict[str, Any]) -> str:
    if output["output_type"] == "stream":
        return f"```text\n{''.join(output['text']).rstrip()}\n```"
    if "image/png" in output["data"]:
        return f"![](data:image/png;base64,{output['data']['image/png']})"
    return f"```text\n{''.join(output['data']['text/plain'])}\n```"


def main(paths: list[Path]) -> None:
    """Run notebooks and write them again."""
    for path in paths:
        done = run(read(path))
        path.write_text(json.dumps(done, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main([Path(one) for one in sys.argv[1:]])

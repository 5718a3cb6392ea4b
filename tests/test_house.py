"""The shape of the code: sizes, names, and what may be known where."""

from __future__ import annotations

import ast
import io
import re
import statistics
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from test_layering import SOURCE, imported_names, module_files

LONGEST_FILE = 450
MEDIAN_FUNCTION, LONG_FUNCTION = 6, 20  # lines of code; the second at the 90th percentile
KIND_CHECKS = 5  # of outcomes and beliefs, outside spaces/outcomes

# What a Gaussian process is only these know.
KERNEL_WORDS = re.compile(r"kernel|lengthscale", re.IGNORECASE)
KNOW_KERNELS = ("functions", "landscapes", "baselines/gp", "evaluation", "app")


def sources() -> Iterator[tuple[str, str]]:
    """Every file of the package by its path within it, with its text."""
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE).as_posix(), path.read_text(encoding="utf-8")


def lines_with_code(text: str) -> set[int]:
    """Lines that hold more than comments and blanks."""
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in skipped:
            found |= set(range(token.start[0], token.end[0] + 1))
    return found


def function_lengths(text: str) -> Iterator[int]:
    """Lines of code in the body of each function, without its docstring."""
    code = lines_with_code(text)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            if body:
                assert node.end_lineno is not None
                yield len(code & set(range(body[0].lineno, node.end_lineno + 1)))


def test_files_are_short() -> None:
    lengths = {name: len(text.splitlines()) for name, text in sources()}
    assert {name: n for name, n in lengths.items() if n > LONGEST_FILE} == {}


def test_functions_are_short() -> None:
    lengths = [n for _, text in sources() for n in function_lengths(text)]
    assert statistics.median(lengths) <= MEDIAN_FUNCTION
    assert float(np.quantile(lengths, 0.9)) <= LONG_FUNCTION


def test_no_class_name_stands_twice_in_a_package() -> None:
    found = defaultdict(list)
    for name, text in sources():
        package = name.split("/")[0]
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef):
                found[package, node.name].append(name)
    assert {key: files for key, files in found.items() if len(files) > 1} == {}


def kinds() -> set[str]:
    """The names of all outcomes and beliefs."""
    found = {"Outcome", "Belief"}
    for name, text in sources():
        if name.startswith("spaces/outcomes/"):
            found |= {n.name for n in ast.parse(text).body if isinstance(n, ast.ClassDef)}
    return found


def checked_kinds(text: str) -> Iterator[tuple[int, str]]:
    """Line and class of each isinstance check."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
            for name in re.findall(r"(?<![\w.])\w+", ast.unparse(node.args[1])):
                yield node.lineno, name


def test_few_ask_which_kind_of_outcome_or_belief_it_is() -> None:
    wanted = kinds()
    found = [
        f"{name}:{line} {kind}"
        for name, text in sources()
        if not name.startswith("spaces/outcomes/")
        for line, kind in checked_kinds(text)
        if kind in wanted
    ]
    assert len(found) <= KIND_CHECKS, "\n".join(found)


def test_kernels_are_known_to_few() -> None:
    found = [
        f"{name}:{number} {line.strip()}"
        for name, text in sources()
        if not name.startswith(KNOW_KERNELS)
        for number, line in enumerate(text.splitlines(), 1)
        if KERNEL_WORDS.search(line)
    ]
    assert not found, "\n".join(found)


def imports_of(modules: dict[str, Path]) -> dict[str, set[str]]:
    """Which modules each module imports when it is loaded."""
    found = {}
    for module, path in modules.items():
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        tree = ast.parse(path.read_text(encoding="utf-8"))
        tree.body = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        names = {name for _, name in imported_names(ast.unparse(tree), package)}
        either = names | {name.rpartition(".")[0] for name in names}
        found[module] = {one for one in either if one in modules and one != package} - {module}
    return found


def test_no_module_imports_itself_on_a_detour() -> None:
    left = imports_of(module_files())
    while free := [module for module, needs in left.items() if not needs & set(left)]:
        for module in free:
            del left[module]
    assert left == {}, "in or behind a cycle"

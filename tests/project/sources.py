"""The project's own files, read as text and syntax trees for the tests of this folder.

They do not change while tests run, so each is listed and read once per process. Syntax trees are large: only those of
the packages' `__init__` files, which several tests look at, are kept.
"""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "src" / "dragoman"
TASKS = PACKAGE / "evaluation" / "tasks"


@cache
def project_files() -> tuple[Path, ...]:
    """Every file that is, or would be, committed; also in a checkout that belongs to another user."""
    listing = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return tuple(path for name in listing.stdout.split("\0") if name and (path := ROOT / name).is_file())


@cache
def text_of(path: Path) -> str:
    return path.read_text()


def tree_of(path: Path) -> ast.Module:
    return ast.parse(text_of(path), str(path))


@cache
def package_tree(package: str) -> ast.Module:
    return tree_of(packages()[package])


@cache
def own_sources() -> tuple[Path, ...]:
    """The Python files of the package, without those of the projects that evaluation tasks start with."""
    return tuple(path for path in sorted(PACKAGE.rglob("*.py")) if TASKS not in path.parents)


@cache
def package_modules() -> Mapping[str, Path]:
    """Module name -> file, for everything below `src/dragoman`."""
    modules = {}
    for path in own_sources():
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


@cache
def packages() -> Mapping[str, Path]:
    """Package name -> its `__init__.py`."""
    return {name: path for name, path in package_modules().items() if path.name == "__init__.py"}


def is_generated(path: Path) -> bool:
    """A generated file says so in its first lines."""
    head = text_of(path).split("\n", 5)[:5]
    return any("generated" in line.lower() for line in head)


def imported_modules(module: str, path: Path) -> Iterator[tuple[int, str]]:
    """(line, absolute module name) of every import anywhere in a file: inside functions and for type checkers too.

    `from dragoman import schema` counts as `dragoman.schema` if that is a module, else as the façade `dragoman`.
    """
    known = package_modules()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = _absolute(module, path, node)
            for alias in node.names:
                inner = f"{origin}.{alias.name}"
                yield node.lineno, inner if inner in known else origin


def _absolute(module: str, path: Path, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    base = module.split(".")
    keep = len(base) - node.level + (path.name == "__init__.py")
    return ".".join([*base[:keep], *([node.module] if node.module else [])])

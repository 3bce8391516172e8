"""Where the `codex` program is, and how it is started.

Owns the search. The package of npm installs a launcher in JavaScript that stays in memory next to the real program
(40 MB); where the real program is found next to it, that one is started. Loaded with the first session.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from dragoman.adapters.values import AdapterError

PROGRAM: Final = "codex"
VARIABLE: Final = "CODEX_PATH"
_INSTALL: Final = "install it (npm install -g @openai/codex, or brew install codex)"


def find_program() -> tuple[str, dict[str, str]]:
    """Return the program to start, and variables for its environment. Raises: AdapterError."""
    wanted = os.environ.get(VARIABLE) or PROGRAM
    found = _which(wanted)
    if found is None:
        if wanted != PROGRAM:
            raise AdapterError(f"{VARIABLE} names {wanted!r}, which is not a program; correct it or remove it")
        raise AdapterError(f"the program codex was not found on PATH; {_INSTALL}, or set {VARIABLE} to where it is")
    return _behind_launcher(found) or (found, {})


def _which(name: str) -> str | None:
    """Return the first program of this name on PATH, or at this path. `shutil` would load four modules for it."""
    folders = [""] if os.sep in name else os.environ.get("PATH", os.defpath).split(os.pathsep)
    for folder in folders:
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    return None


def _behind_launcher(command: str) -> tuple[str, dict[str, str]] | None:
    """Return the program that npm's launcher starts, with the variables that it sets; None if this is another."""
    launcher = Path(os.path.realpath(command))
    if launcher.name != "codex.js" or launcher.parent.name != "bin":
        return None
    package = launcher.parent.parent
    # npm and yarn put the package for the platform next to this one or inside of it, pnpm into a folder of links.
    for scope in (package.parent, package / "node_modules" / "@openai"):
        for program in sorted(scope.glob("codex-*/vendor/*/bin/codex")):
            if os.access(program, os.X_OK) and _is_of_this_machine(program):
                return str(program), {"CODEX_MANAGED_PACKAGE_ROOT": str(package), "CODEX_MANAGED_BY_NPM": "1"}
    return None


def _is_of_this_machine(program: Path) -> bool:
    """Return whether a vendor folder such as `x86_64-unknown-linux-musl` is that of this machine."""
    system, machine = os.uname().sysname.lower(), os.uname().machine.lower()
    target = program.parent.parent.name
    names = ("x86_64",) if machine in ("x86_64", "amd64") else ("aarch64", "arm64")
    return target.startswith(names) and (system in target or (system == "darwin" and "apple" in target))

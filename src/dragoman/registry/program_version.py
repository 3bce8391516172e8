"""The package and version that an installed program belongs to, from the files of the package manager.

The program is not started: real agents take up to ten seconds to print their version. A program that no package
manager installed has no version here.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_LEVELS: Final = 6  # from `node_modules/@scope/name/dist/bin/x.js` to the folder of the package, and some more


class PackageVersion(NamedTuple):
    """An installed package."""

    name: str
    version: str


def package_of(program: str, python_packages: Iterable[str] = ()) -> PackageVersion | None:
    """Return the package that a program belongs to.

    Args:
        program: the path of the program.
        python_packages: Python packages that could have installed it. A script of Python does not name its package.
    """
    real = Path(os.path.realpath(program))
    return _python_package(real, python_packages) or _npm_package(real)


def _npm_package(program: Path) -> PackageVersion | None:
    from dragoman.registry.packages import read_manifest

    if "node_modules" not in program.parts:  # a program in the middle of some project is not that project
        return None
    for folder in program.parents[:_LEVELS]:
        manifest = read_manifest(folder)
        name, version = manifest.get("name"), manifest.get("version")
        if isinstance(name, str) and isinstance(version, str):
            return PackageVersion(name, version)
        if folder.name == "node_modules":
            break
    return None


def _python_package(program: Path, packages: Iterable[str]) -> PackageVersion | None:
    """Return the package in the environment whose `bin` folder contains the program."""
    prefix = program.parent.parent
    wanted = {_normal(package.partition("[")[0]): package for package in packages}
    if not wanted or program.parent.name != "bin":
        return None
    for kind in ("site-packages", "dist-packages"):
        for info in sorted(prefix.glob(f"lib/python*/{kind}/*.dist-info")):
            name, _, version = info.name.removesuffix(".dist-info").partition("-")
            if _normal(name) in wanted and _has_script(info, program.name):
                return PackageVersion(wanted[_normal(name)].partition("[")[0], version)
    return None


def _has_script(info: Path, script: str) -> bool:
    """Return whether the package installed a script of this name, by its own list of entry points."""
    try:
        text = (info / "entry_points.txt").read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return re.search(rf"^{re.escape(script)}\s*=", text, re.MULTILINE) is not None


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()

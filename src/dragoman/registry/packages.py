"""An npm or Python package installed in one exact version below one folder, with the user's own npm or pip.

A package is given by a name and one version; an address, a path or an option of the tool is refused. Decides also which
program of the package is the agent.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
from configparser import ConfigParser
from configparser import Error as ParserError
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

Manager = Literal["npx", "uvx"]

_NPM: Final = re.compile(r"(?P<name>(?:@[a-z0-9][\w.~-]*/)?[a-z0-9][\w.~-]*)(?:@(?P<version>.+))?", re.ASCII | re.I)
_PYTHON: Final = re.compile(
    r"(?P<name>[a-z0-9](?:[\w.-]*[a-z0-9])?(?:\[[\w.,-]+\])?)(?:(?:@|==)(?P<version>.+))?", re.ASCII | re.I
)
_EXACT_NPM: Final = re.compile(r"\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?", re.ASCII)
_EXACT_PYTHON: Final = re.compile(r"\d+(?:\.\d+)*(?:[._-]?[a-z]+\d*)*", re.ASCII | re.I)
_INSTALL_SECONDS: Final = 1800.0  # the largest known agent takes 260 s on a slow machine
_OUTPUT_LINES: Final = 8


class Spec(NamedTuple):
    """One package in one version."""

    manager: Manager
    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name}@{self.version}" if self.manager == "npx" else f"{self.name}=={self.version}"


def pinned(manager: Manager, package: str, version: str, *, is_asked: bool = False) -> Spec:
    """Return the package in exactly one version.

    Args:
        manager: npx for npm, uvx for Python.
        package: the name, with or without a version.
        version: used if the package has no version, or if `is_asked`.
        is_asked: whether the user asked for `version`.

    Raises:
        ConfigError: the package is not a name, or the version is not exact.
    """
    match = (_NPM if manager == "npx" else _PYTHON).fullmatch(package)
    if match is None:
        raise ConfigError(f"{package!r} is not the name of a package; addresses and paths cannot be installed")
    exact = version if is_asked or match["version"] is None else match["version"]
    if not (_EXACT_NPM if manager == "npx" else _EXACT_PYTHON).fullmatch(exact):
        raise ConfigError(f"{package!r} has no exact version ({exact!r}); give one, such as NAME@1.2.3")
    return Spec(manager, match["name"], exact)


def install_npm(spec: Spec, folder: Path, *, cmd: str, report: Callable[[str], None]) -> str:
    """Install an npm package below `folder` and return its program as a path below it.

    Raises:
        ConfigError: the installation failed, or it is not clear which program is the agent.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise ConfigError(f"{spec} needs npm, which is not installed; install Node.js 20 or newer, which includes it")
    (folder / "package.json").write_text('{"private": true}\n')
    quiet = ["--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]
    run_tool(
        [npm, "install", "--prefix", str(folder), "--save-exact", *quiet, str(spec)],
        folder,
        report=report,
        what=str(spec),
    )
    package = folder / "node_modules" / spec.name
    manifest = read_manifest(package)
    if manifest.get("version") != spec.version:
        raise ConfigError(f"{spec}: npm installed version {manifest.get('version')!r} instead; try another version")
    program = _choose(spec, _npm_programs(spec, manifest), cmd)
    path = f"node_modules/.bin/{program}"
    if not (folder / path).exists():
        raise ConfigError(f"{spec}: its program {program!r} is missing after the installation")
    return path


def install_python(spec: Spec, folder: Path, *, cmd: str, python: str, report: Callable[[str], None]) -> str:
    """Install a Python package into a virtual environment at `folder` and return its program below it.

    Raises:
        ConfigError: the installation failed, or it is not clear which program is the agent.
    """
    inner = str(folder / "bin" / "python")
    # Creating a pip in the new environment takes ten seconds; the pip that is here can install for another Python.
    has_pip = _can_install_for_others(python)
    pip = [python, "-m", "pip", "--python", inner] if has_pip else [inner, "-m", "pip"]
    empty = ["--without-pip"] if has_pip else []
    run_tool([python, "-m", "venv", *empty, str(folder)], folder, report=report, what="a virtual environment")
    quiet = ["--disable-pip-version-check", "--no-input", "--quiet"]
    run_tool([*pip, "install", *quiet, str(spec)], folder, report=report, what=str(spec))
    program = _choose(spec, _python_programs(spec, folder), cmd)
    path = f"bin/{program}"
    if not (folder / path).exists():
        raise ConfigError(f"{spec}: its program {program!r} is missing after the installation")
    return path


def _can_install_for_others(python: str) -> bool:
    try:
        done = subprocess.run(
            [python, "-m", "pip", "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    version = re.match(rb"pip (\d+)\.(\d+)", done.stdout)
    return version is not None and (int(version[1]), int(version[2])) >= (22, 3)


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the content of `package.json` in a folder; empty if it cannot be read."""
    try:
        value = json.loads((folder / "package.json").read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def run_tool(argv: Sequence[str], folder: Path, *, report: Callable[[str], None], what: str) -> None:
    """Run an installer until it ends.

    Raises:
        ConfigError: it failed; the message ends with the last lines of its output.
    """
    report(f"installing {what}")
    code, text = asyncio.run(_run(argv, folder))
    if code != 0:
        last = [line.strip() for line in text.splitlines() if line.strip()][-_OUTPUT_LINES:]
        raise ConfigError(f"{what}: {os.path.basename(argv[0])} failed with code {code}: {' | '.join(last)}")


async def _run(argv: Sequence[str], folder: Path) -> tuple[int | str | None, str]:
    from dragoman.process.terminal import Terminal

    terminal = Terminal.start(argv, cwd=str(folder), env=dict(os.environ), pty=False)
    try:
        async with asyncio.timeout(_INSTALL_SECONDS):
            await terminal.wait()
    except TimeoutError:
        return "timeout", terminal.text
    finally:
        await asyncio.shield(terminal.release())
    return terminal.signal or terminal.exit_code, terminal.text


def _choose(spec: Spec, programs: Sequence[str], cmd: str) -> str:
    """Return the program that the registry names, else the one with the name of the package, else the only one."""
    bare = re.split(r"[\[]", spec.name.rpartition("/")[2])[0]
    wanted = cmd or (bare if bare in programs else programs[0] if len(programs) == 1 else "")
    if wanted not in programs:
        offered = ", ".join(programs) or "none"
        raise ConfigError(f"{spec}: it is not clear which of its programs is the agent; it has: {offered}")
    return wanted


def _npm_programs(spec: Spec, manifest: dict[str, Any]) -> list[str]:
    match manifest.get("bin"):
        case str():
            found = [spec.name.rpartition("/")[2]]
        case dict() as programs:
            found = [str(name) for name in programs]
        case _:
            found = []
    return [name for name in found if _is_plain(name)]


def _python_programs(spec: Spec, folder: Path) -> list[str]:
    wanted = _normal(spec.name.partition("[")[0])
    for info in sorted(folder.glob("lib/python*/site-packages/*.dist-info")):
        if _normal(info.name.partition("-")[0]) == wanted:
            parser = ConfigParser(delimiters=("=",), interpolation=None)
            parser.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their case
            try:
                parser.read_string((info / "entry_points.txt").read_text("utf-8"))
            except (OSError, ParserError, ValueError):
                return []
            found = parser["console_scripts"] if parser.has_section("console_scripts") else {}
            return [name for name in found if _is_plain(name)]
    return []


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _is_plain(name: str) -> bool:
    return re.fullmatch(r"[\w.@+-]+", name, re.ASCII) is not None and name not in (".", "..")

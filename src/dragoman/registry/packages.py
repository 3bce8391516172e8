"""An npm or Python package installed in one exact version below one folder, with the user's own npm or pip.

A package is given by a name and one version; an address, a path or an option of the tool is refused. Decides also which
program of the package is the agent.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from configparser import ConfigParser
from configparser import Error as ParserError
from contextlib import suppress
from glob import escape, glob
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Literal, NamedTuple
from urllib.parse import quote

from dragoman.errors import ConfigError
from dragoman.registry.versions import fits

if TYPE_CHECKING:
    from dragoman.process.terminal import Terminal

Manager = Literal["npx", "uvx"]

_NPM: Final = re.compile(r"(?P<name>(?:@[a-z0-9][\w.~-]*/)?[a-z0-9][\w.~-]*)(?:@(?P<version>.+))?", re.ASCII | re.I)
_PYTHON: Final = re.compile(
    r"(?P<name>[a-z0-9](?:[\w.-]*[a-z0-9])?(?:\[[\w.,-]+\])?)(?:(?:@|==)(?P<version>.+))?", re.ASCII | re.I
)
_EXACT_NPM: Final = re.compile(r"\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?", re.ASCII)
_EXACT_PYTHON: Final = re.compile(r"\d+(?:\.\d+)*(?:[._-]?[a-z]+\d*)*", re.ASCII | re.I)
_INSTALL_SECONDS: Final = 1800.0  # the largest known agent takes 260 s on a slow machine
_OUTPUT_LINES: Final = 8
_LOOK_SECONDS: Final = 0.5  # between two looks at the folder, which may have thirty thousand files


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


class InstallProgress(NamedTuple):
    """How far an installation is: what was downloaded or is in its folder, and the last line of the installer."""

    done_bytes: int
    total_bytes: int | None = None
    line: str = ""


class InstallFailed(ConfigError):
    """An installer that failed. `output` has its last lines; `log` names the file with all of them."""

    def __init__(self, message: str, output: tuple[str, ...] = (), log: Path | None = None) -> None:
        super().__init__(message)
        self.output = output
        self.log = log


class Installer(NamedTuple):
    """The programs that install one package: where, with which environment, and what is shown meanwhile."""

    folder: Path
    environment: Mapping[str, str]
    log: Path
    """Gets all that they write."""
    report: Callable[[str], None] = lambda sentence: None
    progress: Callable[[InstallProgress], None] = lambda progress: None
    grows: Path | None = None
    """The folder whose growth is the progress, if that is not the one it runs in."""

    def run(self, argv: Sequence[str], what: str, *, does: str = "installing") -> None:
        """Run an installer until it ends. Raises: InstallFailed."""
        self.report(f"{does} {what}")
        self.log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(self.log, "ab") as log:
            log.write(f"$ {shlex.join(argv)}\n".encode(errors="replace"))
            code, text = asyncio.run(self._run(argv, log))
        if code != 0:
            last = tuple(line.strip() for line in text.splitlines() if line.strip())[-_OUTPUT_LINES:]
            name = os.path.basename(argv[0])
            raise InstallFailed(
                f"{what}: {name} failed with code {code}; all of its output is in {self.log}", last, self.log
            )

    async def _run(self, argv: Sequence[str], log: IO[bytes]) -> tuple[int | str | None, str]:
        from dragoman.process.terminal import Terminal

        terminal = Terminal.start(
            argv, cwd=str(self.folder), env=dict(self.environment), pty=False, on_output=lambda data: _put(log, data)
        )
        watching = asyncio.ensure_future(self._watch(terminal))
        try:
            async with asyncio.timeout(_INSTALL_SECONDS):
                await terminal.wait()
        except TimeoutError:
            return "timeout", terminal.text
        finally:
            watching.cancel()
            await asyncio.shield(terminal.release())
        return terminal.signal or terminal.exit_code, terminal.text

    async def _watch(self, terminal: Terminal) -> None:
        folder = self.grows or self.folder
        before = await asyncio.to_thread(_size_of, folder)
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            lines = terminal.text.rstrip().rpartition("\n")
            size = await asyncio.to_thread(_size_of, folder)
            self.progress(InstallProgress(max(0, size - before), line=lines[2].strip()))


def _put(log: IO[bytes], data: bytes) -> None:
    log.write(data)
    log.flush()  # it can be read while the installer runs


def _size_of(folder: Path) -> int:
    """Return the bytes of all files below a folder; those that vanish meanwhile do not count."""
    size, folders = 0, [str(folder)]
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        size += entry.stat(follow_symlinks=False).st_size
    return size


def install_npm(spec: Spec, installer: Installer, *, cmd: str, wanted: str = "") -> str:
    """Install an npm package below a folder and return its program as a path below it.

    Args:
        spec: the package.
        installer: where and how.
        cmd: the program that is the agent; by default the obvious one.
        wanted: the Node.js that it accepts; any if empty.

    Raises:
        ConfigError: the installation failed, or it is not clear which program is the agent.
    """
    from dragoman.registry.runtimes import find_node, need_of_node, path_with

    folder, environment = installer.folder, installer.environment
    shims = folder.parent.parent / "runtimes"
    node = find_node(wanted, environment)
    if node is None:
        raise ConfigError(f"{spec} {need_of_node(wanted, environment)}")
    path = path_with(node, environment, shims)
    npm = shutil.which("npm", path=path)
    if npm is None:
        raise ConfigError(f"{spec} needs npm, which is not installed; install Node.js 22 or newer, which includes it")
    (folder / "package.json").write_text('{"private": true}\n')
    quiet = ["--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]
    own = installer._replace(environment={**environment, "PATH": path})
    own.run([npm, "install", "--prefix", str(folder), "--save-exact", *quiet, str(spec)], str(spec))
    package = folder / "node_modules" / spec.name
    manifest = read_manifest(package)
    if manifest.get("version") != spec.version:
        raise ConfigError(f"{spec}: npm installed version {manifest.get('version')!r} instead; try another version")
    program = _choose(spec, _npm_programs(spec, manifest), cmd)
    if not (folder / "node_modules" / ".bin" / program).exists():
        raise ConfigError(f"{spec}: its program {program!r} is missing after the installation")
    # npm only warns if the package does not accept its Node.js.
    stated = manifest.get("engines")
    accepted = stated.get("node") if isinstance(stated, dict) else None
    if isinstance(accepted, str) and node.version and fits(node.version, accepted) is False:
        node = find_node(accepted, environment)
        if node is None:
            raise ConfigError(f"{spec} {need_of_node(accepted, environment)}")
        path = path_with(node, environment, shims)
    inner = f"node_modules/.bin/{program}"
    return inner if path == environment.get("PATH") else _wrapper(folder, inner, path.partition(os.pathsep)[0])


def download(
    command: Sequence[str],
    package: str,
    data_dir: Path,
    environment: Mapping[str, str],
    *,
    report: Callable[[str], None] = lambda sentence: None,
    progress: Callable[[InstallProgress], None] = lambda progress: None,
) -> None:
    """Download the package of an agent that npx or uvx runs, unless it is here, so that its start takes no longer.

    Args:
        command: how the agent is started, with `npx` or `uvx`.
        package: the package with its version.
        data_dir: the folder of the user's data, which has the log, and a mark for what was downloaded.
        environment: of the agent.

    Raises:
        InstallFailed: the package manager failed.
    """
    mark = data_dir / "downloaded" / quote(package, safe="@=")
    cache = Path(environment.get("npm_config_cache") or Path(environment.get("HOME") or Path.home(), ".npm")) / "_npx"
    is_npx = os.path.basename(command[0]) == "npx"
    here = (
        glob(f"{escape(str(cache))}/*/node_modules/{escape(package.rpartition('@')[0])}/package.json")
        if is_npx
        else [""]
    )
    if mark.exists() and here:
        return
    if is_npx:
        words = (*command[: command.index(package)], "--package", package, "-c", "true")
    else:
        words = (*command[: command.index(package) + 1], "python", "-c", "")
    program = shutil.which(words[0], path=environment.get("PATH", os.defpath)) or words[0]
    folder = data_dir / "npx"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = data_dir / "logs" / f"download-{mark.name}.log"
    log.unlink(missing_ok=True)
    installer = Installer(folder, environment, log, report, progress, cache if is_npx else None)
    installer.run((program, *words[1:]), package, does="downloading")
    mark.parent.mkdir(mode=0o700, exist_ok=True)
    mark.touch()


def _wrapper(folder: Path, program: str, runtime: str) -> str:
    """Write a script that runs a program with a Node.js that is not the first one on the PATH."""
    script = folder / "with-node"
    script.write_text(
        f'#!/bin/sh\nPATH={shlex.quote(runtime)}:"$PATH" exec "$(dirname "$0")"/{shlex.quote(program)} "$@"\n'
    )
    script.chmod(0o700)
    return script.name


def install_python(spec: Spec, installer: Installer, *, cmd: str, python: str, wanted: str = "") -> str:
    """Install a Python package into a virtual environment and return its program below it.

    Args:
        spec: the package.
        installer: where and how.
        cmd: the program that is the agent; by default the obvious one.
        python: the interpreter that the user named; by default the one that fits is looked for.
        wanted: the version of Python that it needs; by default that of this program.

    Raises:
        ConfigError: the installation failed, or it is not clear which program is the agent.
    """
    from dragoman.registry.runtimes import find_python, find_uv, need_of_python

    folder, environment = installer.folder, installer.environment
    inner = str(folder / "bin" / "python")
    is_own = sys.version_info[:2] == tuple(map(int, wanted.split(".")[:2])) if wanted else True
    found = None if python or is_own else find_python(wanted, environment)
    is_same = found is not None and found.version.startswith(f"{wanted}.")
    uv = None if python or is_own or is_same else find_uv(environment)
    if uv is not None:
        installer.run([uv, "venv", "--python", wanted, str(folder)], f"Python {wanted}")
        installer.run([uv, "pip", "install", "--python", inner, str(spec)], str(spec))
    elif not python and not is_own and found is None:
        raise ConfigError(f"{spec} {need_of_python(wanted, environment)}")
    else:
        chosen = python or (sys.executable if found is None else found.program)
        # Creating a pip in the new environment takes ten seconds; the pip that is here can install for another Python.
        outer = next((program for program in (chosen, sys.executable) if _can_install_for_others(program)), "")
        empty = ["--without-pip"] if outer else []
        installer.run([chosen, "-m", "venv", *empty, str(folder)], "a virtual environment")
        pip = [outer, "-m", "pip", "--python", inner] if outer else [inner, "-m", "pip"]
        quiet = ["--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
        installer.run([*pip, "install", *quiet, str(spec)], str(spec))
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

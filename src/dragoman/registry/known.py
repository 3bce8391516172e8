"""Well-known agents by name: a bundled table of their programs, packages, logins and options, and what of it is here.

The rows are in `known_agents.json`, each with its evidence. A name stands for the program on the PATH, else for its npm
or Python package in one pinned version, run by `npx` or `uvx`. That downloads and runs code, so it needs the user's
confirmation once, see `downloads.py`. Reading the table and looking for a program starts nothing and uses no network;
only runtimes are asked for their versions, if a package depends on one (`runtimes.py`).
"""

from __future__ import annotations

import os
import shutil
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
from msgspec import Struct

from dragoman.registry.versions import fits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dragoman.registry.runtimes import Runtime

OptionName = Literal["append_system_prompt", "max_turns", "allowed_tools"]


class NpmPackage(Struct, frozen=True, forbid_unknown_fields=True):
    """A package of npm in one version, and the Node.js versions that it accepts (any if empty)."""

    package: str
    version: str
    node: str = ""
    megabytes: int = 0
    """What it takes on the disk with all it depends on; 0 if that was not measured."""

    def __str__(self) -> str:
        return f"{self.package}@{self.version}"


class PythonPackage(Struct, frozen=True, forbid_unknown_fields=True):
    """A package of Python in one version, and the Python version to run it with."""

    package: str
    version: str
    python: str
    megabytes: int = 0
    """What it takes on the disk with all it depends on; 0 if that was not measured."""

    def __str__(self) -> str:
        return f"{self.package}=={self.version}"


class ReplacedPackage(Struct, frozen=True, forbid_unknown_fields=True):
    """A package that must not be used any more, and what to use in its place."""

    package: str
    use: str
    versions: str = ""
    """The range that is dead; empty if the package was only replaced, and still works."""
    why: str = ""


class OptionForm(Struct, frozen=True, forbid_unknown_fields=True):
    """How an agent takes an option: as words of its command line, or as a member of `_meta` of `session/new`."""

    args: tuple[str, ...] = ()
    """`{value}` stands for the value."""
    meta: tuple[str, ...] = ()
    """The path of the member."""


class WellKnownAgent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row of the table."""

    name: str
    title: str
    program: str
    evidence: str
    """The recording or document that the row is taken from."""
    aliases: tuple[str, ...] = ()
    wraps: str = ""
    """The agent's own program, if `program` only translates between it and ACP."""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    npm: tuple[NpmPackage, ...] = ()
    """The best version first; the others are for older versions of Node.js."""
    python_package: PythonPackage | None = None
    install: str = ""
    """How to install it, if neither npm nor Python has it."""
    variables: tuple[str, ...] = ()
    """Variables with keys or tokens, of which one is enough."""
    login_files: tuple[str, ...] = ()
    """Files below the home that exist after a login; `*` matches any name."""
    replaced: tuple[ReplacedPackage, ...] = ()
    options: dict[OptionName, OptionForm] = {}
    is_verified: bool = True
    """Whether it was run with dragoman's client, or its messages were recorded."""

    @property
    def names(self) -> frozenset[str]:
        """The words by which it is recognised: its names, its program and its packages."""
        packages = [*(spec.package for spec in self.npm), *(old.package for old in self.replaced)]
        if self.python_package is not None:
            packages.append(self.python_package.package.partition("[")[0])
        return frozenset((self.name, *self.aliases, self.program, *packages))

    @property
    def packages(self) -> tuple[NpmPackage | PythonPackage, ...]:
        """Its packages, the best one first."""
        return self.npm if self.python_package is None else (*self.npm, self.python_package)

    @property
    def how_to_install(self) -> str:
        """A sentence or command for the user."""
        if self.npm:
            node = f" (with Node.js {self.npm[0].node})" if self.npm[0].node else ""
            return f"npm install -g {self.npm[0].package}{node}"
        if self.python_package is not None:
            return f"pip install '{self.python_package.package}' (with Python {self.python_package.python})"
        return self.install


class Located(NamedTuple):
    """What a name stands for on this machine."""

    command: tuple[str, ...] = ()
    """Empty if there is no way to run it yet."""
    where: str = ""
    package: str = ""
    """The package in its version, if running the command may download it."""
    missing: str = ""
    """What has to be installed first."""
    note: str = ""
    """A sentence for the user about a program that was passed over."""
    path: str = ""
    """The PATH that the command needs, if its runtime is not the first one on the user's."""


class _Table(Struct, frozen=True, forbid_unknown_fields=True):
    checked: str
    agents: tuple[WellKnownAgent, ...]


@cache
def _table() -> _Table:
    return msgspec.json.decode(Path(__file__).with_name("known_agents.json").read_bytes(), type=_Table)


def well_known_agents() -> tuple[WellKnownAgent, ...]:
    """Return all rows of the table, sorted by name."""
    return _table().agents


def checked_on() -> str:
    """Return the day on which versions and packages of the table were last compared with the package indexes."""
    return _table().checked


def well_known(name: str) -> WellKnownAgent | None:
    """Return the agent of this name or alias, in upper or lower case; None if it is not in the table."""
    wanted = name.strip().casefold().replace(" ", "-")
    for agent in _table().agents:
        if wanted == agent.name or wanted in agent.aliases:
            return agent
    return None


def recognise(name: str, command: tuple[str, ...]) -> WellKnownAgent | None:
    """Return the agent that a command runs, or if that is not in the table, the agent of this name."""
    from dragoman.registry.quirks import programs

    found = programs(command)
    by_command = next((agent for agent in _table().agents if agent.names & found), None)
    return by_command or well_known(name)


def locate(
    agent: WellKnownAgent, npx_folder: Path, environment: Mapping[str, str] | None = None, *, chosen: str = ""
) -> Located:
    """Find out how to run an agent here.

    Args:
        agent: a row of the table.
        npx_folder: an empty folder of the user, which `npx` takes for its project.
        environment: whose PATH is searched; by default this process's.
        chosen: the package that the user confirmed before, which is preferred.
    """
    variables = os.environ if environment is None else environment
    path = variables.get("PATH", os.defpath)
    program, note = shutil.which(agent.program, path=path), ""
    if program is not None:
        dead = _dead_package(agent, program)
        if dead is None:
            return Located((agent.program, *agent.args), program)
        note = f"{program} is not used: it is {dead.package}, and {dead.why}"
    return _packaged(agent, npx_folder, variables, chosen)._replace(note=note)


def _packaged(agent: WellKnownAgent, npx_folder: Path, environment: Mapping[str, str], chosen: str) -> Located:
    if agent.npm:
        from dragoman.registry.runtimes import missing_runtime, path_with

        package, node = _fitting(agent.npm, environment, chosen)
        if package is None or node is None:
            return Located(missing=missing_runtime(agent, environment).removeprefix("needs "))
        # npx reads `.npmrc` and `node_modules` of the folder it takes for its project. In the current folder a
        # repository could name another registry there, or ship a package of this name and version.
        runner = ("npx", "-y", "--prefix", str(npx_folder), str(package))
        usual = environment.get("PATH", os.defpath)
        path = path_with(node, environment, npx_folder.parent / "runtimes")
        return Located(
            (*runner, *agent.args), f"npm package {package}", str(package), path="" if path == usual else path
        )
    if agent.python_package is not None:
        python, run = agent.python_package, _uv_run(environment)
        if not run:
            return Located(missing="uvx, which is not on the PATH; install uv (pip install uv)")
        words = (*run, "--python", python.python, "--from", str(python), agent.program)
        return Located((*words, *agent.args), f"Python package {python}", str(python))
    return Located(missing=f"{agent.program}, which is not on the PATH; {agent.install}")


def _uv_run(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the words that run a program of a Python package; none if uv is not here."""
    from dragoman.registry.runtimes import find_uv

    if shutil.which("uvx", path=environment.get("PATH", os.defpath)) is not None:
        return ("uvx",)
    uv = find_uv(environment)
    return () if uv is None else (uv, "tool", "run")


def _fitting(
    packages: tuple[NpmPackage, ...], environment: Mapping[str, str], chosen: str = ""
) -> tuple[NpmPackage | None, Runtime | None]:
    """Return the best package that a Node.js of this machine can run, and that Node.js.

    One whose demands are not understood is tried.

    Args:
        chosen: the package that the user confirmed before, which comes first.
    """
    from dragoman.registry.runtimes import find_node

    for package in sorted(packages, key=lambda package: str(package) != chosen):
        node = find_node(package.node, environment)
        if node is not None:
            return package, node
    return None, None


def _dead_package(agent: WellKnownAgent, program: str) -> ReplacedPackage | None:
    """Return the dead package that this program belongs to; None if it can be used."""
    dead = [old for old in agent.replaced if old.versions]
    if not dead:
        return None
    from dragoman.registry.program_version import package_of

    found = package_of(program, [old.package for old in dead])
    if found is None:
        return None
    return next((old for old in dead if old.package == found.name and fits(found.version, old.versions)), None)


def fitting_package(agent: WellKnownAgent) -> NpmPackage | PythonPackage | None:
    """Return the package to install here: the best npm package for this Node.js, else the Python package."""
    return _fitting(agent.npm, os.environ)[0] or agent.python_package


def put_member(meta: dict[str, Any], path: tuple[str, ...], value: object) -> None:
    """Set a member of nested objects, and create those that are missing."""
    for name in path[:-1]:
        meta = meta.setdefault(name, {})
    meta[path[-1]] = value

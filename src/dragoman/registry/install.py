"""Installs an agent of the registry: exactly one version, into a folder of its own, counted only when it is complete.

Owns the three ways of distribution: npm packages, Python packages and archives. An archive is compared with its sha256
before a byte of it is unpacked; one without a checksum needs the user's word. Nothing is installed for the whole
machine, and nothing is left of what failed. The index and all deletions are `installed.py`'s.
"""

from __future__ import annotations

import os
import platform
import shutil
import stat
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import ConfigError
from dragoman.registry import packages
from dragoman.registry.archive import LIMITS, Limits, is_archive, unpack
from dragoman.registry.catalogue import Listed, Package, Target
from dragoman.registry.fetch import fetch
from dragoman.registry.installed import PINNED, Distribution, Installed, InstalledAgents, stays_in_folder

if TYPE_CHECKING:
    from collections.abc import Callable

_LARGEST_DOWNLOAD_BYTES: Final = 2 << 30
_DOWNLOAD_SECONDS: Final = 3600.0
_ARCHIVES: Final = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
_MACHINES: Final = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}


class Plan(Struct, frozen=True, kw_only=True):
    """What an install will do, to be shown before it is done."""

    listed: Listed
    version: str
    distribution: Distribution
    source: str
    """The package with its exact version, or the archive's address."""
    sha256: str = ""
    """Of the archive; empty if the registry does not tell it."""
    is_verified: bool = True
    """Whether something vouches for the bytes: the package manager's own checksums, or the registry's."""


def make_plan(
    listed: Listed, *, distribution: Distribution | None = None, version: str = "", target: str | None = None
) -> Plan:
    """Chooses how to install; `target` is the platform (this one by default).

    Raises: ConfigError when there is no way, or none to that version.
    """
    target = this_platform() if target is None else target
    ways = listed.distribution
    found = [distribution] if distribution else _usable(listed, target)
    for way in found:
        if way == "binary" and target in ways.binary:
            return _binary_plan(listed, ways.binary[target], version)
        package = ways.npx if way == "npx" else ways.uvx if way == "uvx" else None
        if package is not None and (way == "npx" or way == "uvx"):
            spec = packages.pinned(way, package.package, version or listed.version, is_asked=bool(version))
            return Plan(listed=listed, version=spec.version, distribution=way, source=str(spec))
    asked = f"as {distribution}" if distribution else "for this machine"
    raise ConfigError(f"{listed.id} is not distributed {asked} ({target}); it is as {', '.join(listed.kinds)}")


def install(
    plan: Plan,
    agents: InstalledAgents,
    *,
    accept_unverified: bool = False,
    python: str = sys.executable,
    limits: Limits = LIMITS,
    say: Callable[[str], None] = lambda sentence: None,
) -> Installed:
    """Does what the plan says; an earlier version is replaced when this one is complete.

    Raises: ConfigError (FetchError, ArchiveError) with what failed; then everything is as it was before.
    """
    if not plan.is_verified and not accept_unverified:
        raise ConfigError(
            f"{plan.source}: the registry tells no sha256 for it, so nobody can say whether it is what its author "
            "published; install it all the same with --without-checksum"
        )
    with agents.locked():
        folder = agents.fresh_folder(plan.listed.id, plan.version)
        try:
            if plan.distribution == "binary":
                entry = _install_binary(plan, agents, folder, limits, say)
            else:
                entry = _install_package(plan, agents, folder, python, say)
        except BaseException:
            agents.discard(folder)
            raise
        agents.keep(entry)
    return entry


def this_platform() -> str:
    """The name of this machine in the registry."""
    machine = platform.machine().lower()
    return f"{'darwin' if sys.platform == 'darwin' else 'linux'}-{_MACHINES.get(machine, machine)}"


def _usable(listed: Listed, target: str) -> list[Distribution]:
    """The ways that can work here, best first: what is checked and needs nothing new before what does not."""
    ways = listed.distribution
    binary = ways.binary.get(target)
    order: list[tuple[Distribution, bool]] = [
        ("binary", binary is not None and bool(binary.sha256)),
        ("npx", ways.npx is not None and shutil.which("npm") is not None),
        ("uvx", ways.uvx is not None),
        ("npx", ways.npx is not None),
        ("binary", binary is not None),
    ]
    return [way for way, is_usable in order if is_usable]


def _binary_plan(listed: Listed, target: Target, version: str) -> Plan:
    if version and version != listed.version:
        raise ConfigError(f"the registry has {listed.id} {listed.version} as an archive, not {version}")
    if not stays_in_folder((os.path.normpath(target.cmd),)):
        raise ConfigError(f"{listed.id}: the registry names {target.cmd!r} as its program, which is not in the archive")
    return Plan(
        listed=listed,
        version=listed.version,
        distribution="binary",
        source=target.archive,
        sha256=target.sha256.lower(),
        is_verified=bool(target.sha256),
    )


def _install_package(
    plan: Plan, agents: InstalledAgents, folder: str, python: str, say: Callable[[str], None]
) -> Installed:
    way = plan.distribution
    package = plan.listed.distribution.npx if way == "npx" else plan.listed.distribution.uvx
    assert isinstance(package, Package)
    spec = packages.pinned("npx" if way == "npx" else "uvx", package.package, plan.version, is_asked=True)
    place = agents.root / folder
    place.mkdir(mode=0o700)
    if way == "npx":
        program = packages.install_npm(spec, place, cmd=package.cmd, say=say)
    else:
        program = packages.install_python(spec, place, cmd=package.cmd, python=python, say=say)
    return _entry(plan, folder, (program, *package.args), package.env)


def _install_binary(
    plan: Plan, agents: InstalledAgents, folder: str, limits: Limits, say: Callable[[str], None]
) -> Installed:
    target = plan.listed.distribution.binary[this_platform()]
    cmd = os.path.normpath(target.cmd)
    say(f"fetching {plan.source}")
    with tempfile.NamedTemporaryFile(dir=agents.root, prefix=".download-") as file:
        digest = fetch(plan.source, file, limit_bytes=_LARGEST_DOWNLOAD_BYTES, seconds=_DOWNLOAD_SECONDS)
        file.flush()
        _check(plan, digest, agents.all().get(plan.listed.id))
        _unpack(Path(file.name), agents.root / folder, plan.source, cmd, limits)
    program = agents.root / folder / cmd
    if not program.is_file():
        raise ConfigError(f"{plan.source}: there is no {target.cmd!r} in it; tell the agent's author")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return replace(_entry(plan, folder, (cmd, *target.args), target.env), sha256=digest)


def _check(plan: Plan, digest: str, before: Installed | None) -> None:
    if plan.sha256 and digest != plan.sha256:
        raise ConfigError(
            f"{plan.source}: refused: its sha256 is {digest}, the registry says {plan.sha256}; "
            "it was damaged on the way or replaced; do not use it"
        )
    if not plan.sha256 and before is not None and before.source == plan.source and before.sha256 != digest:
        raise ConfigError(
            f"{plan.source}: refused: its sha256 is {digest}, and was {before.sha256} when it was installed; "
            "somebody replaced it; remove the agent first if that is right"
        )


def _unpack(archive: Path, target: Path, source: str, cmd: str, limits: Limits) -> None:
    if is_archive(archive):
        unpack(archive, target, limits=limits)
    elif urlsplit(source).path.lower().endswith(_ARCHIVES):
        raise ConfigError(f"{source}: refused: it is damaged, or not an archive this program knows")
    else:  # the program itself
        (target / cmd).parent.mkdir(mode=0o700, parents=True)
        shutil.copyfile(archive, target / cmd)


def _entry(plan: Plan, folder: str, command: tuple[str, ...], env: dict[str, str]) -> Installed:
    assert PINNED.fullmatch(plan.version)
    return Installed(
        id=plan.listed.id,
        name=plan.listed.name,
        version=plan.version,
        distribution=plan.distribution,
        source=plan.source,
        command=command,
        folder=folder,
        env=dict(env),
        added=datetime.now(UTC).isoformat(timespec="seconds"),
    )

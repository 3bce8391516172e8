"""An agent installed from the registry: one exact version, in a folder of its own.

An agent is an npm package, a Python package or an archive. The sha256 of an archive is compared before anything is
unpacked; an archive without one needs `accept_unverified`. Nothing is installed for the whole machine,
and a failed installation leaves nothing behind. The index and all deletions are in `installed.py`.
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
from time import monotonic
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import ConfigError
from dragoman.registry import packages
from dragoman.registry.archive import LIMITS, ArchiveLimits, is_archive, unpack
from dragoman.registry.catalogue import BinaryTarget, Listed, Package
from dragoman.registry.fetch import fetch
from dragoman.registry.installed import PINNED, Distribution, Installed, InstalledAgents, is_inner_path
from dragoman.registry.packages import Installer, InstallProgress

if TYPE_CHECKING:
    from collections.abc import Callable

_LARGEST_DOWNLOAD_BYTES: Final = 2 << 30
_DOWNLOAD_SECONDS: Final = 3600.0
_SHOW_SECONDS: Final = 0.25
_ARCHIVES: Final = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
_MACHINES: Final = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}


class InstallPlan(Struct, frozen=True, kw_only=True):
    """What an installation will do, so that it can be shown first."""

    listed: Listed
    version: str
    distribution: Distribution
    source: str
    """The package with its exact version, or the address of the archive."""
    sha256: str = ""
    """Of the archive; empty if the registry lists none."""
    is_verified: bool = True
    """Whether the content is verified: by the package manager, or by a checksum in the registry."""


def make_plan(
    listed: Listed, *, distribution: Distribution | None = None, version: str = "", target: str | None = None
) -> InstallPlan:
    """Choose how to install an agent.

    Args:
        listed: the agent in the registry.
        distribution: the kind of package; by default the best one for this machine.
        version: another version than the registry's, for packages.
        target: the platform; by default this machine's.

    Raises:
        ConfigError: the agent is not distributed for this machine, or not in this version.
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
            return InstallPlan(listed=listed, version=spec.version, distribution=way, source=str(spec))
    asked = f"as {distribution}" if distribution else "for this machine"
    raise ConfigError(f"{listed.id} is not distributed {asked} ({target}); available: {', '.join(listed.kinds)}")


def install(
    plan: InstallPlan,
    agents: InstalledAgents,
    *,
    accept_unverified: bool = False,
    python: str = "",
    limits: ArchiveLimits = LIMITS,
    report: Callable[[str], None] = lambda sentence: None,
    progress: Callable[[InstallProgress], None] = lambda progress: None,
) -> Installed:
    """Install an agent. An earlier version is replaced when the new one is complete.

    Args:
        plan: what to install, from `make_plan`.
        agents: where to install it.
        accept_unverified: install an archive without a checksum.
        python: the interpreter for a Python package; by default one that fits is looked for.
        limits: what an archive may contain.
        report: called with a sentence for each step.
        progress: called some times in a second while something is downloaded or installed.

    Raises:
        ConfigError: something failed (FetchError, ArchiveError, InstallFailed); nothing has changed.
    """
    if not plan.is_verified and not accept_unverified:
        raise ConfigError(
            f"{plan.source}: the registry lists no sha256 for this download, so it cannot be verified; "
            "to install it anyway use --without-checksum"
        )
    with agents.locked():
        folder = agents.fresh_folder(plan.listed.id, plan.version)
        try:
            if plan.distribution == "binary":
                entry = _install_binary(plan, agents, folder, limits, report, progress)
            else:
                log = agents.root.parent / "logs" / f"install-{plan.listed.id}.log"
                log.unlink(missing_ok=True)
                installer = Installer(agents.root / folder, os.environ, log, report, progress)
                entry = _install_package(plan, folder, python, installer)
        except BaseException:
            agents.discard(folder)
            raise
        agents.keep(entry)
    return entry


def this_platform() -> str:
    """Return the name of this machine's platform in the registry."""
    machine = platform.machine().lower()
    return f"{'darwin' if sys.platform == 'darwin' else 'linux'}-{_MACHINES.get(machine, machine)}"


def _usable(listed: Listed, target: str) -> list[Distribution]:
    """Return the kinds of package that can work here, best first: verified ones, and those with installed tools."""
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


def _binary_plan(listed: Listed, target: BinaryTarget, version: str) -> InstallPlan:
    if version and version != listed.version:
        raise ConfigError(f"the registry has {listed.id} {listed.version} as an archive, not {version}")
    if not is_inner_path(os.path.normpath(target.cmd)):
        raise ConfigError(f"{listed.id}: the registry names the program {target.cmd!r}, which is not below the archive")
    return InstallPlan(
        listed=listed,
        version=listed.version,
        distribution="binary",
        source=target.archive,
        sha256=target.sha256.lower(),
        is_verified=bool(target.sha256),
    )


def _install_package(plan: InstallPlan, folder: str, python: str, installer: Installer) -> Installed:
    way = plan.distribution
    package = plan.listed.distribution.npx if way == "npx" else plan.listed.distribution.uvx
    assert isinstance(package, Package)
    spec = packages.pinned("npx" if way == "npx" else "uvx", package.package, plan.version, is_asked=True)
    installer.folder.mkdir(mode=0o700)
    if way == "npx":
        program = packages.install_npm(spec, installer, cmd=package.cmd, wanted=package.runtime)
    else:
        program = packages.install_python(spec, installer, cmd=package.cmd, python=python, wanted=package.runtime)
    return _entry(plan, folder, (program, *package.args), package.env)


def _install_binary(
    plan: InstallPlan,
    agents: InstalledAgents,
    folder: str,
    limits: ArchiveLimits,
    report: Callable[[str], None],
    progress: Callable[[InstallProgress], None],
) -> Installed:
    target = plan.listed.distribution.binary[this_platform()]
    cmd = os.path.normpath(target.cmd)
    report(f"fetching {plan.source}")
    shown_at = 0.0

    def show(done: int, whole: int | None) -> None:
        nonlocal shown_at
        if monotonic() - shown_at >= _SHOW_SECONDS or done == whole:
            shown_at = monotonic()
            progress(InstallProgress(done, whole))

    with tempfile.NamedTemporaryFile(dir=agents.root, prefix=".download-") as file:
        digest = fetch(
            plan.source,
            file,
            limit_bytes=_LARGEST_DOWNLOAD_BYTES,
            seconds=_DOWNLOAD_SECONDS,
            progress=show,
        )
        file.flush()
        _check(plan, digest, agents.all().get(plan.listed.id))
        _unpack(Path(file.name), agents.root / folder, plan.source, cmd, limits)
    program = agents.root / folder / cmd
    if not program.is_file():
        raise ConfigError(f"{plan.source}: it does not contain {target.cmd!r}; report this to the agent's author")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return replace(_entry(plan, folder, (cmd, *target.args), target.env), sha256=digest)


def _check(plan: InstallPlan, digest: str, before: Installed | None) -> None:
    if plan.sha256 and digest != plan.sha256:
        raise ConfigError(
            f"{plan.source}: refused: its sha256 is {digest}, the registry lists {plan.sha256}; "
            "the download is damaged or was replaced"
        )
    if not plan.sha256 and before is not None and before.source == plan.source and before.sha256 != digest:
        raise ConfigError(
            f"{plan.source}: refused: its sha256 is {digest}, and was {before.sha256} when it was installed; "
            "the archive was replaced; if that is right, remove the agent first"
        )


def _unpack(archive: Path, target: Path, source: str, cmd: str, limits: ArchiveLimits) -> None:
    if is_archive(archive):
        unpack(archive, target, limits=limits)
    elif urlsplit(source).path.lower().endswith(_ARCHIVES):
        raise ConfigError(f"{source}: refused: it is damaged, or not a known kind of archive")
    else:  # the download is the program itself
        (target / cmd).parent.mkdir(mode=0o700, parents=True)
        shutil.copyfile(archive, target / cmd)


def _entry(plan: InstallPlan, folder: str, command: tuple[str, ...], env: dict[str, str]) -> Installed:
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

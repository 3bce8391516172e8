"""The ACP registry: the agents that can be installed, their versions, and how each is distributed.

It is read from an address or a file, and a copy is stored. An entry that is not understood is skipped with a reason;
the others can be used. Installing an agent is in `install.py`.
"""

from __future__ import annotations

import io
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from dragoman.errors import ConfigError
from dragoman.registry.installed import ID, PINNED
from dragoman.settings.documents import read_document, write_document

if TYPE_CHECKING:
    from collections.abc import Mapping

ADDRESS: Final = "https://cdn.agentclientprotocol.com/registry/v1/latest/registry.json"
FILE_NAME: Final = "registry.json"
# Some version changes every hour. A user who installs an agent wants a recent version, not necessarily the newest.
FRESH_SECONDS: Final = 24 * 3600.0
_LIMIT_BYTES: Final = 8 << 20  # sixty agents are 60 KB
_FETCH_SECONDS: Final = 60.0

_Text = Annotated[str, Meta(min_length=1, max_length=4096)]
_Variables = dict[Annotated[str, Meta(pattern=r"\A[^=\x00]+\Z")], Annotated[str, Meta(pattern=r"\A[^\x00]*\Z")]]
_Words = list[Annotated[str, Meta(pattern=r"\A[^\x00]*\Z")]]


class Package(Struct, frozen=True):
    """A package of npm or Python."""

    package: _Text
    cmd: str = ""
    args: _Words = []
    env: _Variables = {}
    runtime: str = ""
    """The Node.js that it accepts (`>=22`), or the Python that it needs (`3.12`); any if empty."""


class BinaryTarget(Struct, frozen=True):
    """An archive for one platform."""

    archive: _Text
    cmd: _Text
    args: _Words = []
    env: _Variables = {}
    sha256: str = ""


class Distributions(Struct, frozen=True):
    """The ways in which an agent is distributed; archives by platform."""

    npx: Package | None = None
    uvx: Package | None = None
    binary: dict[str, BinaryTarget] = {}


class Listed(Struct, frozen=True):
    """One agent of the registry."""

    id: Annotated[str, Meta(pattern=rf"\A{ID.pattern}\Z")]
    name: _Text
    version: Annotated[str, Meta(pattern=rf"\A{PINNED.pattern}\Z")]
    distribution: Distributions
    description: str = ""
    repository: str = ""
    license: str = ""
    authors: list[str] = []

    @property
    def kinds(self) -> tuple[str, ...]:
        kinds = {"npx": self.distribution.npx, "uvx": self.distribution.uvx, "binary": self.distribution.binary}
        return tuple(name for name, found in kinds.items() if found)


class Catalogue(Struct, frozen=True):
    """A copy of the registry."""

    agents: dict[str, Listed]
    origin: str
    fetched: float
    """When, in seconds since 1970."""
    skipped: tuple[str, ...] = ()
    """A reason for each entry that was not understood."""

    def age_seconds(self, now: float | None = None) -> float:
        return max(0.0, (time.time() if now is None else now) - self.fetched)

    @property
    def is_fresh(self) -> bool:
        return self.age_seconds() < FRESH_SECONDS


def read_catalogue(value: Any, origin: str, fetched: float) -> Catalogue:
    """Read the registry's JSON.

    Args:
        value: the parsed JSON.
        origin: the address or file it comes from.
        fetched: when, in seconds since 1970.

    Raises:
        ConfigError: it is not a registry.
    """
    if not isinstance(value, dict) or not isinstance(value.get("agents"), list):
        raise ConfigError(f'{origin}: not an ACP registry; it should look like {{"version": ..., "agents": [...]}}')
    agents: dict[str, Listed] = {}
    skipped: list[str] = []
    for place, entry in enumerate(value["agents"]):
        label = entry.get("id") if isinstance(entry, dict) else None
        label = label if isinstance(label, str) and re.fullmatch(r"[\w-]{1,64}", label) else f"agents[{place}]"
        try:
            listed = msgspec.convert(entry, Listed)
        except msgspec.ValidationError as error:
            skipped.append(f"{label}: {error}")
            continue
        if not listed.kinds:
            skipped.append(f"{label}: it has no known kind of distribution")
        elif listed.id in agents:
            skipped.append(f"{label}: it is listed twice")
        else:
            agents[listed.id] = listed
    return Catalogue(agents, origin, fetched, tuple(skipped))


def cached_catalogue(cache_dir: Path) -> Catalogue | None:
    """Return the stored copy of any age; None if there is none, or if it cannot be read and has to be fetched again."""
    try:
        document = read_document(cache_dir / FILE_NAME)
        if document is None:
            return None
        kept: Mapping[str, Any] = document.value
        return read_catalogue(kept["document"], str(kept["origin"]), float(kept["fetched"]))
    except (ConfigError, KeyError, TypeError, ValueError):
        return None


def bundled(name: str) -> Listed | None:
    """Return a well-known agent as an entry of the registry, from the facts that come with dragoman.

    None if it is not known, or neither npm nor Python has a package of it that can run here.
    """
    from dragoman.registry.known import NpmPackage, fitting_package, well_known

    agent = well_known(name)
    package = None if agent is None else fitting_package(agent)
    if agent is None or package is None:
        return None
    runtime = package.node if isinstance(package, NpmPackage) else package.python
    way = Package(str(package), agent.program, list(agent.args), dict(agent.env), runtime)
    ways = Distributions(npx=way) if isinstance(package, NpmPackage) else Distributions(uvx=way)
    return Listed(agent.name, agent.title, package.version, ways)


def refresh_catalogue(cache_dir: Path, origin: str = ADDRESS) -> Catalogue:
    """Fetch the registry from an address or a file, and store a copy.

    Raises:
        ConfigError: it cannot be fetched or is not a registry; the old copy stays.
    """
    value = _fetched(origin) if "://" in origin else _from_file(Path(origin))
    catalogue = read_catalogue(value, origin, time.time())
    write_document(cache_dir / FILE_NAME, {"origin": origin, "fetched": catalogue.fetched, "document": value})
    return catalogue


def _fetched(url: str) -> Any:
    from dragoman.registry.fetch import fetch

    text = io.BytesIO()
    fetch(url, text, limit_bytes=_LIMIT_BYTES, seconds=_FETCH_SECONDS)
    try:
        return msgspec.json.decode(text.getvalue())
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ConfigError(f"{url}: not JSON: {error}") from None


def _from_file(path: Path) -> Any:
    document = read_document(path)
    if document is None:
        raise ConfigError(f"{path}: no such file; give the file or the address of an ACP registry")
    return document.value

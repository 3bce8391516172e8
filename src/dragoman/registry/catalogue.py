"""The ACP registry: which agents exist, in which version, and how each is distributed.

Owns reading its JSON, from a file or an address, and the copy that is kept. Read with tolerance: one entry that is not
understood is left out and counted, the others are there. Getting an agent is `install.py`'s.
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
FRESH_SECONDS: Final = (
    24 * 3600.0
)  # versions change every hour there, but who installs wants a recent one, not the last
_LIMIT_BYTES: Final = 8 << 20  # sixty agents are 60 KB
_FETCH_SECONDS: Final = 60.0

_Text = Annotated[str, Meta(min_length=1, max_length=4096)]
_Variables = dict[Annotated[str, Meta(pattern=r"\A[^=\x00]+\Z")], Annotated[str, Meta(pattern=r"\A[^\x00]*\Z")]]
_Words = list[Annotated[str, Meta(pattern=r"\A[^\x00]*\Z")]]


class Package(Struct, frozen=True):
    """A package of npm or of Python."""

    package: _Text
    cmd: str = ""
    args: _Words = []
    env: _Variables = {}


class BinaryTarget(Struct, frozen=True):
    """An archive for one platform."""

    archive: _Text
    cmd: _Text
    args: _Words = []
    env: _Variables = {}
    sha256: str = ""


class Distributions(Struct, frozen=True):
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
    """The registry as it was when it was fetched."""

    agents: dict[str, Listed]
    origin: str
    fetched: float
    """Seconds since 1970."""
    skipped: tuple[str, ...] = ()
    """Entries that were not understood, each with its reason."""

    def age_seconds(self, now: float | None = None) -> float:
        return max(0.0, (time.time() if now is None else now) - self.fetched)

    @property
    def is_fresh(self) -> bool:
        return self.age_seconds() < FRESH_SECONDS


def read_catalogue(value: Any, origin: str, fetched: float) -> Catalogue:
    """Understands the registry's JSON.

    Raises: ConfigError if it is not a registry at all.
    """
    if not isinstance(value, dict) or not isinstance(value.get("agents"), list):
        raise ConfigError(f'{origin}: not an ACP registry; it should be {{"version": ..., "agents": [...]}}')
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
            skipped.append(f"{label}: it is distributed in no way this program knows")
        elif listed.id in agents:
            skipped.append(f"{label}: it is listed twice")
        else:
            agents[listed.id] = listed
    return Catalogue(agents, origin, fetched, tuple(skipped))


def cached_catalogue(cache_dir: Path) -> Catalogue | None:
    """The copy that was kept, however old; None if there is none that can be read. It can always be fetched again."""
    try:
        document = read_document(cache_dir / FILE_NAME)
        if document is None:
            return None
        kept: Mapping[str, Any] = document.value
        return read_catalogue(kept["document"], str(kept["origin"]), float(kept["fetched"]))
    except (ConfigError, KeyError, TypeError, ValueError):
        return None


def refresh_catalogue(cache_dir: Path, origin: str = ADDRESS) -> Catalogue:
    """Gets the registry from an address or a file, and keeps a copy.

    Raises: ConfigError when it cannot be had or is not a registry; the old copy stays then.
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
        raise ConfigError(f"{path}: no such file; give a file or an address of an ACP registry")
    return document.value

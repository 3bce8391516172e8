"""What a repository ships is a proposal: it runs only after the user accepted exactly that.

Owns the fingerprint of a command and the user's file of accepted ones. A name proves nothing, because whoever can write
to the repository can put another command under it: another command is another fingerprint, and asks again.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct, ValidationError, convert, to_builtins

from dragoman.errors import ConfigError
from dragoman.registry.documents import read_document, write_document

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

Kind = Literal["agent", "mcp", "default"]

FILE_NAME: Final = "accepted.json"
VERSION: Final = 1


class Acceptance(Struct, frozen=True):
    """One thing the user said yes to, in one project."""

    project: str
    kind: Kind
    name: str
    sha256: str
    added: str


def fingerprint(
    command: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    *,
    url: str = "",
    headers: Mapping[str, str] | None = None,
) -> str:
    """The sha256 of everything that decides what runs or what is talked to."""
    import hashlib

    whole = [list(command), sorted((env or {}).items()), url, sorted((headers or {}).items())]
    # ASCII: one spelling for every text, lone surrogates included.
    return hashlib.sha256(json.dumps(whole, separators=(",", ":")).encode("ascii")).hexdigest()


def mcp_fingerprint(server: Mapping[str, Any]) -> str:
    """The same for an entry of `mcp_servers`."""
    command = (server["command"], *server.get("args", ())) if "command" in server else ()
    return fingerprint(command, server.get("env"), url=server.get("url", ""), headers=server.get("headers"))


class Accepted:
    """The user's file of accepted proposals, `accepted.json` beside the settings."""

    def __init__(self, config_dir: Path) -> None:
        self.path = config_dir / FILE_NAME
        self._entries: list[Acceptance] | None = None

    def entries(self) -> list[Acceptance]:
        """Raises: ConfigError for a broken file; it is never taken for an empty one."""
        if self._entries is None:
            document = read_document(self.path)
            self._entries = [] if document is None else _read(document.value, self.path)
        return self._entries

    def holds(self, project: Path, kind: Kind, name: str, sha256: str) -> bool:
        return any(
            entry.project == _key(project) and (entry.kind, entry.name, entry.sha256) == (kind, name, sha256)
            for entry in self.entries()
        )

    def add(self, project: Path, kind: Kind, name: str, sha256: str) -> None:
        """Remembers a yes, in place of an earlier one under that name."""
        from datetime import UTC, datetime

        kept = self._others(project, kind, name)
        added = datetime.now(UTC).isoformat(timespec="seconds")
        self._write([*kept, Acceptance(_key(project), kind, name, sha256, added)])

    def remove(self, project: Path, kind: Kind, name: str) -> bool:
        """Forgets a yes; says whether there was one."""
        kept = self._others(project, kind, name)
        if len(kept) == len(self.entries()):
            return False
        self._write(kept)
        return True

    def _others(self, project: Path, kind: Kind, name: str) -> list[Acceptance]:
        this = (_key(project), kind, name)
        return [entry for entry in self.entries() if (entry.project, entry.kind, entry.name) != this]

    def _write(self, entries: list[Acceptance]) -> None:
        write_document(self.path, {"version": VERSION, "accepted": to_builtins(entries)})
        self._entries = entries


def _read(value: Any, path: Path) -> list[Acceptance]:
    if not isinstance(value, dict) or value.get("version") != VERSION:
        raise ConfigError(f"{path}: not a file of accepted proposals, or of a newer dragoman; move it away")
    try:
        return convert(value.get("accepted"), list[Acceptance])
    except ValidationError as error:
        raise ConfigError(f"{path}: {error}; correct it, or move it away and accept again") from error


def _key(project: Path) -> str:
    return os.path.realpath(project)

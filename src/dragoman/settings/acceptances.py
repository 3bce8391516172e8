"""Acceptances: which commands and addresses that a project proposes the user has accepted, in `accepted.json`.

An acceptance holds for one project, one name and one fingerprint of what would run. The name alone proves nothing:
everyone who can write to the repository can put another command under it. Another command has another fingerprint, and
the user is asked again. An acceptance is not a permission for a tool call: those are rules, see `rule_file.py`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct, ValidationError, convert, to_builtins

from dragoman.errors import ConfigError
from dragoman.settings.documents import read_document, write_document
from dragoman.settings.project import project_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

ProposalKind = Literal["agent", "mcp", "default", "hook"]

FILE_NAME: Final = "accepted.json"
VERSION: Final = 1


class Acceptance(Struct, frozen=True):
    """One accepted proposal of one project."""

    project: str
    kind: ProposalKind
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
    """Return the sha256 of everything that decides which program runs or which server is contacted."""
    import hashlib

    whole = [list(command), sorted((env or {}).items()), url, sorted((headers or {}).items())]
    # ASCII: every text has one spelling, lone surrogates included.
    return hashlib.sha256(json.dumps(whole, separators=(",", ":")).encode("ascii")).hexdigest()


def mcp_fingerprint(server: Mapping[str, Any]) -> str:
    """Return the fingerprint of an entry of `mcp_servers`."""
    command = (server["command"], *server.get("args", ())) if "command" in server else ()
    env = dict(server.get("env") or {})
    for member in ("cwd", "oauth"):  # they decide what runs, and who is logged in to, as variables do
        if member in server:
            env[f"={member}"] = json.dumps(server[member], sort_keys=True)  # no variable has this name
    return fingerprint(command, env, url=server.get("url", ""), headers=server.get("headers"))


class Acceptances:
    """The file of acceptances in the user's configuration folder. It is read when first needed."""

    def __init__(self, config_dir: Path) -> None:
        self.path = config_dir / FILE_NAME
        self._entries: list[Acceptance] | None = None

    def entries(self) -> list[Acceptance]:
        """Return all acceptances of all projects.

        Raises:
            ConfigError: the file is broken; it is never treated as empty.
        """
        if self._entries is None:
            document = read_document(self.path)
            self._entries = [] if document is None else _read(document.value, self.path)
        return self._entries

    def has(self, project: Path, kind: ProposalKind, name: str, sha256: str) -> bool:
        """Whether this proposal was accepted in exactly this form. Raises: ConfigError."""
        wanted = (project_key(project), kind, name, sha256)
        return any((entry.project, entry.kind, entry.name, entry.sha256) == wanted for entry in self.entries())

    def add(self, project: Path, kind: ProposalKind, name: str, sha256: str) -> None:
        """Store an acceptance in place of an earlier one of that name. Raises: ConfigError."""
        from datetime import UTC, datetime

        kept = self._others(project, kind, name)
        added = datetime.now(UTC).isoformat(timespec="seconds")
        self._write([*kept, Acceptance(project_key(project), kind, name, sha256, added)])

    def remove(self, project: Path, kind: ProposalKind, name: str) -> bool:
        """Delete an acceptance; False if there was none. Raises: ConfigError."""
        kept = self._others(project, kind, name)
        if len(kept) == len(self.entries()):
            return False
        self._write(kept)
        return True

    def _others(self, project: Path, kind: ProposalKind, name: str) -> list[Acceptance]:
        this = (project_key(project), kind, name)
        return [entry for entry in self.entries() if (entry.project, entry.kind, entry.name) != this]

    def _write(self, entries: list[Acceptance]) -> None:
        write_document(self.path, {"version": VERSION, "accepted": to_builtins(entries)})
        self._entries = entries


def _read(value: Any, path: Path) -> list[Acceptance]:
    if not isinstance(value, dict) or value.get("version") != VERSION:
        raise ConfigError(f"{path}: not a file of acceptances, or written by a newer dragoman; move it away")
    try:
        return convert(value.get("accepted"), list[Acceptance])
    except ValidationError as error:
        raise ConfigError(f"{path}: {error}; correct it, or move it away and accept again") from error

"""The packages that the user confirmed to be downloaded and run by name, in `downloads.json`.

One confirmation holds for one agent and one version of its package. A newer dragoman with another version asks again.
Loaded for well-known agents that are not installed, so that the others start without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dragoman.errors import ConfigError
from dragoman.settings.documents import read_document, write_document

if TYPE_CHECKING:
    from pathlib import Path

FILE_NAME: Final = "downloads.json"
VERSION: Final = 1


class Downloads:
    """The confirmed packages by the name of the agent. The file is read when first needed."""

    def __init__(self, config_dir: Path) -> None:
        self.path = config_dir / FILE_NAME
        self._entries: dict[str, str] | None = None

    def confirmed(self, agent: str) -> str:
        """Return the package that was confirmed for an agent, with its version; empty if there is none.

        Raises:
            ConfigError: the file is broken; it is never treated as empty.
        """
        return self._read().get(agent, "")

    def confirm(self, agent: str, package: str) -> None:
        """Store a confirmation in place of an earlier one of that agent. Raises: ConfigError."""
        self._write({**self._read(), agent: package})

    def withdraw(self, agent: str) -> bool:
        """Delete a confirmation; False if there was none. Raises: ConfigError."""
        entries = dict(self._read())
        if entries.pop(agent, None) is None:
            return False
        self._write(entries)
        return True

    def _read(self) -> dict[str, str]:
        if self._entries is None:
            document = read_document(self.path)
            self._entries = {} if document is None else _checked(document.value, self.path)
        return self._entries

    def _write(self, entries: dict[str, str]) -> None:
        write_document(self.path, {"version": VERSION, "confirmed": entries})
        self._entries = entries


def _checked(value: Any, path: Path) -> dict[str, str]:
    entries = value.get("confirmed") if isinstance(value, dict) and value.get("version") == VERSION else None
    if not isinstance(entries, dict) or not all(isinstance(package, str) for package in entries.values()):
        raise ConfigError(f"{path}: not a list of confirmed downloads, or of a newer dragoman; move it away")
    return entries

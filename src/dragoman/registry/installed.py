"""The agents installed from the registry: an index, and a folder for each agent below one root.

All deletions below the root happen here. A folder has a name of our own form (`id@version-token`). It is deleted by
that name below the root's descriptor, never by a path from the index: a manipulated index can lose an agent, but it
cannot delete or start anything outside the root. How an agent gets into its folder is in `install.py`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct, ValidationError, convert, to_builtins

from dragoman.errors import ConfigError
from dragoman.settings.documents import read_document, write_document

if TYPE_CHECKING:
    from collections.abc import Iterator

Distribution = Literal["npx", "uvx", "binary"]

FOLDER: Final = "agents"
INDEX: Final = "installed.json"
VERSION: Final = 1
ID: Final = re.compile(r"[a-z][a-z0-9-]{0,63}")
PINNED: Final = re.compile(r"\d[0-9A-Za-z.+-]{0,63}")
_FOLDER: Final = re.compile(rf"({ID.pattern})@({PINNED.pattern})-([0-9a-f]{{8}})(?:\.unpacking)?")


class Installed(Struct, frozen=True, kw_only=True):
    """One installed agent. The first word of its command is a path below its folder."""

    id: str
    name: str
    version: str
    distribution: Distribution
    source: str
    """The package with its version, or the address of the archive."""
    command: tuple[str, ...]
    folder: str
    env: dict[str, str] = {}
    sha256: str = ""
    added: str = ""


class InstalledAgents:
    """The installed agents, in the folder `agents` of the data directory. Reading creates no folder."""

    def __init__(self, data_dir: Path) -> None:
        self.root = data_dir / FOLDER
        self.index = self.root / INDEX
        self.notes: list[str] = []

    def all(self) -> dict[str, Installed]:
        """Return all installed agents by id. An entry of the index that cannot be right is skipped, with a note.

        Raises:
            ConfigError: the index cannot be read.
        """
        self.notes = []
        entries = (self._checked(id_, value) for id_, value in self._read().items())
        return {entry.id: entry for entry in entries if entry is not None}

    def argv(self, entry: Installed) -> tuple[str, ...]:
        """Return the command with the full path of its program."""
        return (str(self.root / entry.folder / entry.command[0]), *entry.command[1:])

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the root, so that no other program installs or removes agents.

        Raises:
            ConfigError: another program holds the lock, or the root cannot be used.
        """
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(self.root / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise ConfigError(f"{self.root}: cannot be used: {error.strerror}; check its owner and mode") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise ConfigError(f"{self.root}: another install or remove is running; try again later") from None
        finally:
            os.close(fd)

    def fresh_folder(self, id_: str, version: str) -> str:
        """Return a new name for a folder. The agent in it is installed only when the index contains it, see `keep`."""
        assert ID.fullmatch(id_), id_
        assert PINNED.fullmatch(version), version
        return f"{id_}@{version}-{os.urandom(4).hex()}"

    def keep(self, entry: Installed) -> None:
        """Add an agent to the index, and delete the folders of its other versions. Raises: ConfigError."""
        index = self._read()
        index[entry.id] = to_builtins(entry)
        self._write(index)
        self._delete_folders(entry.id, but=entry.folder)

    def remove(self, id_: str) -> bool:
        """Remove an agent from the index and delete its folders; False if there was none. Raises: ConfigError."""
        index = self._read()
        was_there = index.pop(id_, None) is not None
        if was_there:
            self._write(index)
        return self._delete_folders(id_) or was_there

    def discard(self, folder: str) -> None:
        """Delete the folder of an installation that failed. Raises: ConfigError."""
        self._delete([folder])

    def _delete_folders(self, id_: str, but: str = "") -> bool:
        try:
            names = os.listdir(self.root)
        except OSError:
            return False
        ours = [name for name in names if (match := _FOLDER.fullmatch(name)) and match[1] == id_ and name != but]
        self._delete(ours)
        return bool(ours)

    def _delete(self, folders: list[str]) -> None:
        """Delete by name below the root's descriptor; a link is refused, not followed."""
        import shutil

        try:
            root = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise ConfigError(f"{self.root}: cannot be opened: {error.strerror}; make it a folder") from error
        try:
            for folder in folders:
                if not _FOLDER.fullmatch(folder):
                    raise AssertionError(f"not a folder of ours: {folder!r}")
                with contextlib.suppress(FileNotFoundError):
                    shutil.rmtree(folder, dir_fd=root)
        except OSError as error:
            raise ConfigError(
                f"{self.root}: {error.filename} cannot be deleted: {error.strerror}; delete it by hand"
            ) from error
        finally:
            os.close(root)

    def _read(self) -> dict[str, Any]:
        document = read_document(self.index)
        if document is None:
            return {}
        value = document.value
        if not isinstance(value, dict) or value.get("version") != VERSION or not isinstance(value.get("agents"), dict):
            raise ConfigError(
                f"{self.index}: not an index of installed agents, or written by a newer dragoman; "
                "move it away and install the agents again"
            )
        agents: dict[str, Any] = value["agents"]
        return agents

    def _write(self, agents: dict[str, Any]) -> None:
        write_document(self.index, {"version": VERSION, "agents": agents})

    def _checked(self, id_: str, value: Any) -> Installed | None:
        try:
            entry = convert(value, Installed)
        except ValidationError as error:
            self.notes.append(f"{self.index}: {id_!r} is not used: {error}; install it again")
            return None
        named = _FOLDER.fullmatch(entry.folder)
        program = entry.command[0] if entry.command else ""
        if entry.id != id_ or named is None or named[1] != id_ or not is_inner_path(program):
            self.notes.append(f"{self.index}: {id_!r} is not used: it points outside its folder; install it again")
            return None
        return entry


def is_inner_path(path: str) -> bool:
    """Return whether a path is relative and cannot lead out of the folder it is relative to."""
    parts = Path(path).parts
    return parts != () and not os.path.isabs(path) and ".." not in parts and "\0" not in path

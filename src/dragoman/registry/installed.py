"""The agents installed from the registry: an index, and one folder for each below a root of our own.

Owns the root's layout and every deletion in it. A folder is named by us (`id@version-token`), so what is deleted is
found by that name below the root's descriptor, never by a path out of the index: an index that somebody changed can
lose an agent, but cannot make us delete or run anything outside. How an agent gets into its folder is `install.py`.
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
from dragoman.registry.documents import read_document, write_document

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
    """The package with its version, or the archive's address."""
    command: tuple[str, ...]
    folder: str
    env: dict[str, str] = {}
    sha256: str = ""
    added: str = ""


class InstalledAgents:
    """The root of the installed agents, `agents` in the data directory. Nothing is created by looking."""

    def __init__(self, data_dir: Path) -> None:
        self.root = data_dir / FOLDER
        self.index = self.root / INDEX
        self.notes: list[str] = []

    def all(self) -> dict[str, Installed]:
        """By id. An entry that is not as we wrote it is left out, with a note.

        Raises: ConfigError if the index as a whole cannot be read.
        """
        self.notes = []
        entries = (self._checked(id_, value) for id_, value in self._read().items())
        return {entry.id: entry for entry in entries if entry is not None}

    def argv(self, entry: Installed) -> tuple[str, ...]:
        """The command as it can be started."""
        return (str(self.root / entry.folder / entry.command[0]), *entry.command[1:])

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else installs or removes meanwhile.

        Raises: ConfigError when somebody does.
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
            raise ConfigError(f"{self.root}: another install or remove is running; try again when it is done") from None
        finally:
            os.close(fd)

    def fresh_folder(self, id_: str, version: str) -> str:
        """A new name for a folder; the index decides when it counts."""
        assert ID.fullmatch(id_), id_
        assert PINNED.fullmatch(version), version
        return f"{id_}@{version}-{os.urandom(4).hex()}"

    def keep(self, entry: Installed) -> None:
        """Makes an agent count from now on, and deletes what it replaces."""
        index = self._read()
        index[entry.id] = to_builtins(entry)
        self._write(index)
        self._delete_folders(entry.id, but=entry.folder)

    def remove(self, id_: str) -> bool:
        """Forgets an agent and deletes its folders; says whether there was one."""
        index = self._read()
        was_there = index.pop(id_, None) is not None
        if was_there:
            self._write(index)
        return self._delete_folders(id_) or was_there

    def discard(self, folder: str) -> None:
        """Deletes a folder that never came to count."""
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
        """By name below the root's descriptor; a link is not followed but refused."""
        import shutil

        try:
            root = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise ConfigError(f"{self.root}: nothing is deleted there: {error.strerror}; make it a folder") from error
        try:
            for folder in folders:
                if not _FOLDER.fullmatch(folder):
                    raise AssertionError(f"not a folder of ours: {folder!r}")
                with contextlib.suppress(FileNotFoundError):
                    shutil.rmtree(folder, dir_fd=root)
        except OSError as error:
            raise ConfigError(
                f"{self.root}: {error.filename} cannot be deleted: {error.strerror}; look at it and delete it by hand"
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
                f"{self.index}: no index of installed agents, or of a newer dragoman; move it away and install again"
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
        if entry.id != id_ or named is None or named[1] != id_ or not stays_in_folder(entry.command[:1]):
            self.notes.append(f"{self.index}: {id_!r} is not used: it points outside its folder; install it again")
            return None
        return entry


def stays_in_folder(command: tuple[str, ...]) -> bool:
    """Whether the first word of a command is a relative path that stays inside its folder."""
    if not command or not command[0] or "\0" in command[0] or os.path.isabs(command[0]):
        return False
    return ".." not in Path(command[0]).parts and Path(command[0]).parts != ()

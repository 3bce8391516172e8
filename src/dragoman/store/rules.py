"""The file in which the user's rules are kept: `rules.json` in the user's configuration folder.

    {"version": 1,
     "user": [{"rule": "read", "action": "allow", "added": "2026-01-31T12:00:00Z"}],
     "projects": {"/home/me/project": [{"rule": "execute:npm test", "action": "allow", "added": "..."}]}}

People may edit it. What cannot be understood is an error that says where, and such a file is never written over.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from dragoman.errors import ConfigError
from dragoman.policy import ACTIONS, Action, Rule, parse_rule
from dragoman.store.places import config_dir

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE_NAME: Final = "rules.json"
KeptScope: TypeAlias = Literal["pinned", "project"]
_MEMBERS: Final = frozenset({"version", "user", "projects"})


class Kept(NamedTuple):
    """A rule of the file: for one project, or for all (None), and when it was added."""

    rule: Rule
    project: str | None
    added: str


def open_rules() -> RuleFile:
    """The user's own file, which need not exist."""
    return RuleFile(config_dir() / FILE_NAME)


def real_project(project: str | os.PathLike[str]) -> str:
    """The one name of a project, whatever links lead to it."""
    return os.path.realpath(project)


class RuleFile:
    """Rules on disk. Every call looks at the file: another program, or a person, may have changed it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Final = Path(path)
        self._kept: list[Kept] = []
        self._seen: tuple[int, int, int] | None = None

    def rules(self, project: str | os.PathLike[str] | None = None) -> list[Rule]:
        """The rules for everywhere and, if one is named, those for the project.

        Raises: ConfigError when the file, or a rule in it, cannot be read.
        """
        wanted = None if project is None else real_project(project)
        return [kept.rule for kept in self.kept() if kept.project is None or kept.project == wanted]

    def kept(self) -> list[Kept]:
        """Everything in the file, which is read again only when it is another. Raises: ConfigError."""
        stamp = self._stamp()
        if stamp is None or stamp != self._seen:
            self._kept, self._seen = self._read_kept(), stamp
        return self._kept

    def _stamp(self) -> tuple[int, int, int] | None:
        """Tells one state of the file from another; every change of ours replaces it by a new one."""
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def _read_kept(self) -> list[Kept]:
        document = self._read()
        found = [self._entry(entry, None, n) for n, entry in enumerate(document["user"])]
        for project, entries in document["projects"].items():
            found += [self._entry(entry, project, n) for n, entry in enumerate(entries)]
        return found

    def remember(
        self,
        text: str,
        action: Action,
        scope: KeptScope = "pinned",
        project: str | os.PathLike[str] | None = None,
    ) -> bool:
        """Adds a rule; False if it is there already. A rule that says otherwise about the same is replaced.

        Raises: ConfigError for a rule that cannot be kept, or a file that cannot be read or written.
        """
        parse_rule(text, action, scope, str(self.path))
        with self._changing() as document:
            entries = self._entries(document, scope, project)
            if any(entry["rule"] == text and entry["action"] == action for entry in entries):
                return False
            entries[:] = [entry for entry in entries if entry["rule"] != text]
            added = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
            entries.append({"rule": text, "action": action, "added": added})
        return True

    def forget(
        self,
        text: str,
        action: Action | None = None,
        scope: KeptScope = "pinned",
        project: str | os.PathLike[str] | None = None,
    ) -> bool:
        """Removes a rule, whatever it does unless `action` is given; False if it is not there.

        Raises: ConfigError for a file that cannot be read or written.
        """
        with self._changing() as document:
            entries = self._entries(document, scope, project)
            left = [entry for entry in entries if entry["rule"] != text or action not in (None, entry["action"])]
            is_gone = len(left) != len(entries)
            entries[:] = left
            document["projects"] = {name: found for name, found in document["projects"].items() if found}
        return is_gone

    def _entries(
        self, document: dict[str, Any], scope: KeptScope, project: str | os.PathLike[str] | None
    ) -> list[dict[str, Any]]:
        if scope == "pinned":
            user: list[dict[str, Any]] = document["user"]
            return user
        if project is None:
            raise ConfigError("a rule for a project needs the project's folder")
        entries: list[dict[str, Any]] = document["projects"].setdefault(real_project(project), [])
        return entries

    def _entry(self, entry: dict[str, Any], project: str | None, number: int) -> Kept:
        where = f"{self.path}: user[{number}]" if project is None else f"{self.path}: projects[{project!r}][{number}]"
        rule = parse_rule(entry["rule"], entry["action"], "pinned" if project is None else "project", where)
        return Kept(Rule(rule.action, rule.text, rule.scope, str(self.path)), project, entry.get("added", ""))

    def _read(self) -> dict[str, Any]:
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return {"version": 1, "user": [], "projects": {}}
        except OSError as error:
            raise ConfigError(f"{self.path}: the rules cannot be read: {error.strerror}") from None
        try:
            document = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{self.path}: this is not JSON: {error}; mend the file or move it away") from None
        problem = _problem(document)
        if problem is not None:
            raise ConfigError(f"{self.path}: {problem}; mend the file or move it away")
        return {"version": 1, "user": [], "projects": {}, **document}

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        """The document for a change, written back whole if it changed; two programs change it one after the other."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(self.path.with_suffix(".lock"), "w") as lock:
                os.chmod(lock.fileno(), 0o600)
                fcntl.flock(lock, fcntl.LOCK_EX)
                document = self._read()
                before = msgspec.json.encode(document)
                yield document
                if msgspec.json.encode(document) != before:
                    _replace(self.path, msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
        except OSError as error:
            raise ConfigError(f"{self.path}: the rules cannot be written: {error.strerror}") from None


def _problem(document: Any) -> str | None:
    """What is wrong with the shape of the file; a newer version of it is not guessed at."""
    if not isinstance(document, dict):
        return "the rules must be a JSON object"
    if document.get("version", 1) != 1:
        return f"version {document['version']!r} of this file is not known here"
    unknown = sorted(document.keys() - _MEMBERS)
    if unknown:
        return f"{unknown[0]!r} is no member of this file; it has {', '.join(sorted(_MEMBERS))}"
    projects = document.get("projects", {})
    if not isinstance(projects, dict):
        return "projects must be an object by folder"
    for where, entries in {"user": document.get("user", []), **projects}.items():
        if not isinstance(entries, list):
            return f"{where} must be a list of rules"
        for number, entry in enumerate(entries):
            if not isinstance(entry, dict) or not isinstance(entry.get("rule"), str):
                return f'{where}[{number}] must look like {{"rule": "edit:src/**", "action": "allow"}}'
            if entry.get("action") not in ACTIONS:
                return f"{where}[{number}].action must be allow, deny or ask"
    return None


def _replace(path: Path, text: bytes) -> None:
    """All or nothing, readable by the user alone."""
    # A dotfile manager may have put a link there: its target is the file.
    target = Path(os.path.realpath(path))
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise

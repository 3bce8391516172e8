"""The file of the user's permission rules, `rules.json` in the user's configuration folder.

    {"version": 1,
     "user": [{"rule": "read", "action": "allow", "added": "2026-01-31T12:00:00Z"}],
     "projects": {"/home/me/project": [{"rule": "execute:npm test", "action": "allow", "added": "..."}]}}

Users may edit it. A file that cannot be understood is an error that names the place, and is never overwritten.
Rules can also be written in the settings, see `file.py`; this file is the one that programs add to.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from dragoman.errors import ConfigError
from dragoman.settings.documents import write_private
from dragoman.settings.places import config_dir
from dragoman.settings.project import project_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.policy import Action, Rule

FILE_NAME: Final = "rules.json"
KeptScope: TypeAlias = Literal["pinned", "project"]
_ACTIONS: Final = ("allow", "deny", "ask")
_MEMBERS: Final = frozenset({"version", "user", "projects"})


class KeptRule(NamedTuple):
    """A rule of the file, the project it is for (None: every project), and when it was added."""

    rule: Rule
    project: str | None
    added: str


def open_rules() -> RuleFile:
    """Return the rule file of the current user, which may not exist yet."""
    return RuleFile(config_dir() / FILE_NAME)


class RuleFile:
    """Permission rules on disk. Every call checks the file, because another program or the user may have changed it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Final = Path(path)
        self._kept: list[KeptRule] = []
        self._seen: tuple[int, int, int] | None = None

    def rules(self, project: str | os.PathLike[str] | None = None) -> list[Rule]:
        """Return the rules for every project and those for `project`, if one is given.

        Raises:
            ConfigError: the file, or a rule in it, cannot be understood.
        """
        wanted = None if project is None else project_key(project)
        return [kept.rule for kept in self.kept() if kept.project is None or kept.project == wanted]

    def kept(self) -> list[KeptRule]:
        """Return all rules of the file. It is read again only after it has changed. Raises: ConfigError."""
        stamp = self._stamp()
        if stamp is None or stamp != self._seen:
            self._kept, self._seen = self._read_kept(), stamp
        return self._kept

    def _stamp(self) -> tuple[int, int, int] | None:
        """Identify one version of the file; each of our changes replaces the file by a new one."""
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def _read_kept(self) -> list[KeptRule]:
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
        """Add a rule, in place of one with the same text and another action; False if it exists already.

        Args:
            text: the rule, such as `edit:src/**`.
            action: allow, deny or ask.
            scope: "pinned" for every project, "project" for one.
            project: the folder of the project, for the scope "project".

        Raises:
            ConfigError: the rule cannot be kept, or the file cannot be read or written.
        """
        from dragoman.policy import parse_rule

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
        """Remove a rule, with any action unless one is given; False if it does not exist.

        Args:
            text: the rule, exactly as it is written in the file.
            action: remove it only if it has this action.
            scope: "pinned" for every project, "project" for one.
            project: the folder of the project, for the scope "project".

        Raises:
            ConfigError: the file cannot be read or written.
        """
        with self._changing() as document:
            entries = self._entries(document, scope, project)
            others = [entry for entry in entries if entry["rule"] != text or action not in (None, entry["action"])]
            was_there = len(others) != len(entries)
            entries[:] = others
            document["projects"] = {name: found for name, found in document["projects"].items() if found}
        return was_there

    def _entries(
        self, document: dict[str, Any], scope: KeptScope, project: str | os.PathLike[str] | None
    ) -> list[dict[str, Any]]:
        if scope == "pinned":
            user: list[dict[str, Any]] = document["user"]
            return user
        if project is None:
            raise ConfigError("a rule for a project needs the folder of the project")
        entries: list[dict[str, Any]] = document["projects"].setdefault(project_key(project), [])
        return entries

    def _entry(self, entry: dict[str, Any], project: str | None, number: int) -> KeptRule:
        from dragoman.policy import Rule, parse_rule

        where = f"{self.path}: user[{number}]" if project is None else f"{self.path}: projects[{project!r}][{number}]"
        rule = parse_rule(entry["rule"], entry["action"], "pinned" if project is None else "project", where)
        return KeptRule(Rule(rule.action, rule.text, rule.scope, str(self.path)), project, entry.get("added", ""))

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
            raise ConfigError(f"{self.path}: this is not JSON: {error}; correct the file or move it away") from None
        problem = _problem(document)
        if problem is not None:
            raise ConfigError(f"{self.path}: {problem}; correct the file or move it away")
        return {"version": 1, "user": [], "projects": {}, **document}

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        """Provide the document for a change; it is written back if it changed.

        A lock lets one program change it at a time.
        """
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(self.path.with_suffix(".lock"), "w") as lock:
                os.chmod(lock.fileno(), 0o600)
                fcntl.flock(lock, fcntl.LOCK_EX)
                document = self._read()
                before = msgspec.json.encode(document)
                yield document
                if msgspec.json.encode(document) != before:
                    write_private(self.path, msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
        except OSError as error:
            raise ConfigError(f"{self.path}: the rules cannot be written: {error.strerror}") from None


def _problem(document: Any) -> str | None:
    """Return what is wrong with the structure of the file; None if nothing is. A newer version of it is refused."""
    if not isinstance(document, dict):
        return "the rules must be a JSON object"
    if document.get("version", 1) != 1:
        return f"version {document['version']!r} of this file is unknown; a newer dragoman may have written it"
    unknown = sorted(document.keys() - _MEMBERS)
    if unknown:
        return f"{unknown[0]!r} is not a member of this file; its members are {', '.join(sorted(_MEMBERS))}"
    projects = document.get("projects", {})
    if not isinstance(projects, dict):
        return "projects must be an object with folders as names"
    for where, entries in {"user": document.get("user", []), **projects}.items():
        if not isinstance(entries, list):
            return f"{where} must be a list of rules"
        for number, entry in enumerate(entries):
            if not isinstance(entry, dict) or not isinstance(entry.get("rule"), str):
                return f'{where}[{number}] must look like {{"rule": "edit:src/**", "action": "allow"}}'
            if entry.get("action") not in _ACTIONS:
                return f"{where}[{number}].action must be allow, deny or ask"
    return None

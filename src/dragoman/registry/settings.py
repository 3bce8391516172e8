"""Settings files: the user's, a project's, and what Zed and JetBrains keep about agents.

Owns the shape of these files and what is wrong with one. The user's own files must be right, to the column; what an
editor keeps is read as far as it can be. A project's file is somebody else's: what it may not say is dropped here and
reported, so that nobody above can use it by mistake. Who may run what is decided in `proposals.py` and `agents.py`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct

from dragoman.errors import ConfigError
from dragoman.registry.documents import Document, read_document
from dragoman.registry.servers import Server, check_mcp_server, nearest, read_server

if TYPE_CHECKING:
    from collections.abc import Mapping

Source = Literal["built-in", "user", "zed", "jetbrains", "registry", "project", "command"]

FILE_NAME: Final = "settings.json"
PROJECT_FOLDER: Final = ".dragoman"
_MEMBERS: Final = (
    *("agent_servers", "default_agent", "rules", "mcp_servers", "registry"),
    *("model", "title_model", "mode"),
)


class RuleTexts(Struct, frozen=True):
    """Rules as they are written; `dragoman.policy` reads them."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()


class Settings(Struct, frozen=True):
    """What one file says; empty for a file that is not there."""

    path: Path
    source: Source
    servers: dict[str, Server] = {}
    default_agent: str = ""
    rules: RuleTexts = RuleTexts()
    mcp_servers: dict[str, dict[str, Any]] = {}
    registry: str = ""
    """Where the ACP registry is, if not at its usual place."""
    notes: tuple[str, ...] = ()
    """What was left out, and why: for people."""
    model: str = ""
    """What the built-in agent is started with, as are the next two."""
    title_model: str = ""
    mode: str = ""


def user_file(config_dir: Path) -> Path:
    return config_dir / FILE_NAME


def project_file(project: Path) -> Path:
    return project / PROJECT_FOLDER / FILE_NAME


def editor_files(home: Path, environment: Mapping[str, str] = os.environ) -> dict[Source, Path]:
    """Where Zed and JetBrains keep their agents."""
    base = environment.get("XDG_CONFIG_HOME", "")
    config = Path(base) if os.path.isabs(base) else home / ".config"
    return {"zed": config / "zed" / "settings.json", "jetbrains": home / ".jetbrains" / "acp.json"}


def find_project(start: Path, home: Path | None = None) -> Path:
    """The folder a piece of work belongs to: the nearest with `.dragoman` or `.git`, else where it starts.

    The home directory is nobody's project, nor is anything above it.
    """
    place = Path(os.path.realpath(start))
    ending = {Path(os.path.realpath(home or Path.home())), Path(place.anchor)}
    for folder in (place, *place.parents):
        if folder in ending:
            break
        if (folder / PROJECT_FOLDER).is_dir() or (folder / ".git").exists():
            return folder
    return place


def load_settings(path: Path, source: Source) -> Settings:
    """Reads one file.

    Raises: ConfigError, with `file:line:column` and what to do, for a file of the user or a project that is wrong.
    What an editor's file has wrong becomes a note.
    """
    if source in ("zed", "jetbrains"):
        return _load_editor(path, source)
    document = read_document(path)
    return Settings(path, source) if document is None else _Reader(document, source).settings()


def _load_editor(path: Path, source: Source) -> Settings:
    try:
        document = read_document(path, has_comments=True)
    except ConfigError as error:
        return Settings(path, source, notes=(f"not used: {error}",))
    if document is None:
        return Settings(path, source)
    servers: dict[str, Server] = {}
    notes: list[str] = []
    found = document.value.get("agent_servers") if isinstance(document.value, dict) else None
    for name, value in (found if isinstance(found, dict) else {}).items():
        try:
            servers[name] = read_server(document, ("agent_servers", name), name, value, notes=[])
        except ConfigError as error:
            notes.append(f"not used: {error}")
    return Settings(path, source, servers, notes=tuple(notes))


class _Reader:
    """Reads a file of our own shape."""

    def __init__(self, document: Document, source: Source) -> None:
        self._document = document
        self._source = source
        self._notes: list[str] = []
        if not isinstance(document.value, dict):
            raise document.error('settings are an object: {"agent_servers": {...}}')
        self._members: dict[str, Any] = document.value

    def settings(self) -> Settings:
        for name in self._members:
            if name not in _MEMBERS:
                hint = nearest(name, _MEMBERS) or f"known are {', '.join(_MEMBERS)}"
                self._notes.append(f"{self._document.place(name)}: {name!r} is not a setting; {hint}")
        servers = {
            name: read_server(self._document, ("agent_servers", name), name, value, notes=self._notes)
            for name, value in self._object("agent_servers").items()
        }
        mcp_servers = self._object("mcp_servers")
        for name, value in mcp_servers.items():
            check_mcp_server(self._document, ("mcp_servers", name), value)
        return Settings(
            self._document.path,
            self._source,
            servers,
            self._text("default_agent"),
            self._rules(),
            mcp_servers,
            self._own("registry", "choose the registry"),
            model=self._own("model", "choose the model"),
            title_model=self._own("title_model", "choose the model"),
            mode=self._own("mode", "choose the mode"),
            notes=tuple(self._notes),
        )

    def _rules(self) -> RuleTexts:
        rules = self._object("rules")
        for name in rules:
            if name not in ("allow", "deny", "ask"):
                raise self._document.error(f"{name!r} is no list of rules; write allow, deny or ask", "rules", name)
        texts = {name: self._rule_list(name, rules.get(name, [])) for name in ("allow", "deny", "ask")}
        if self._source == "project" and texts["allow"]:
            place = self._document.place("rules", "allow")
            self._notes.append(
                f"{place}: a project's file cannot allow anything: {', '.join(texts['allow'])}; "
                "what you want to allow belongs in your own settings"
            )
            texts["allow"] = ()
        return RuleTexts(**texts)

    def _rule_list(self, name: str, value: object) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise self._document.error(f'{name} is a list of rules, such as ["edit:src/**"]', "rules", name)
        for place, text in enumerate(value):
            if not isinstance(text, str):
                raise self._document.error('a rule is a text, such as "edit:src/**"', "rules", name, place)
        return tuple(value)

    def _own(self, name: str, what: str) -> str:
        """A text that only the user's own file may say."""
        value = self._text(name)
        if value and self._source == "project":
            place = self._document.place(name)
            self._notes.append(f"{place}: a project's file cannot {what}; write it in your own settings")
            return ""
        return value

    def _text(self, name: str) -> str:
        value = self._members.get(name, "")
        if not isinstance(value, str):
            raise self._document.error(f"{name} is a text in double quotes", name)
        return value

    def _object(self, name: str) -> dict[str, Any]:
        value = self._members.get(name, {})
        if not isinstance(value, dict):
            raise self._document.error(f'{name} is an object: {{"NAME": {{...}}}}', name)
        return value

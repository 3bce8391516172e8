"""The agents that Zed and JetBrains know: where they keep their settings, and the entries that can be used.

An entry or a file that cannot be used becomes a note, because it is the editor's file and may contain anything.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from dragoman.errors import ConfigError
from dragoman.settings.documents import read_document
from dragoman.settings.servers import AgentServer, read_agent_server

if TYPE_CHECKING:
    from collections.abc import Mapping

Editor = Literal["zed", "jetbrains"]


class EditorAgents(NamedTuple):
    """The agents of one editor by name, and sentences about those that were ignored."""

    servers: dict[str, AgentServer]
    notes: tuple[str, ...]


def editor_files(home: Path, environment: Mapping[str, str] = os.environ) -> dict[Editor, Path]:
    """The files in which Zed and JetBrains keep their agents."""
    base = environment.get("XDG_CONFIG_HOME", "")
    config = Path(base) if os.path.isabs(base) else home / ".config"
    return {"zed": config / "zed" / "settings.json", "jetbrains": home / ".jetbrains" / "acp.json"}


def read_editor_agents(path: Path) -> EditorAgents:
    """Read the agents from an editor's file."""
    try:
        document = read_document(path, has_comments=True)
    except ConfigError as error:
        return EditorAgents({}, (f"not used: {error}",))
    if document is None:
        return EditorAgents({}, ())
    servers: dict[str, AgentServer] = {}
    notes: list[str] = []
    found = document.value.get("agent_servers") if isinstance(document.value, dict) else None
    for name, value in (found if isinstance(found, dict) else {}).items():
        try:
            servers[name] = read_agent_server(document, ("agent_servers", name), name, value, notes=[])
        except ConfigError as error:
            notes.append(f"not used: {error}")
    return EditorAgents(servers, tuple(notes))

"""Where the four programs keep their files, and where what they hold belongs here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from dragoman.settings.file import project_file, user_file
from dragoman.settings.project import PROJECT_FOLDER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dragoman.foreign.proposal import Program, Scope


class Places(Struct, frozen=True):
    """The folders of one import."""

    scope: Scope
    home: Path
    project: Path
    config_dir: Path
    """Of the user's own settings of dragoman."""
    claude: Path
    codex: Path
    opencode: Path
    gemini: Path
    """The user's folder of each program."""
    claude_state: Path
    """The file of Claude Code that holds MCP servers and much else."""

    @property
    def target(self) -> Path:
        """The folder that commands, skills and agents are written to."""
        return self.config_dir if self.scope == "user" else self.project / PROJECT_FOLDER

    @property
    def settings(self) -> Path:
        """The settings file that is written to."""
        return user_file(self.config_dir) if self.scope == "user" else project_file(self.project)

    @property
    def instructions(self) -> Path:
        """The file that instructions are added to."""
        return (self.config_dir if self.scope == "user" else self.project) / "AGENTS.md"

    def folder(self, program: Program) -> Path:
        """Return the folder of a program that is read: the user's, or that of the project."""
        if self.scope == "user":
            return {
                "claude": self.claude,
                "codex": self.codex,
                "opencode": self.opencode,
                "gemini": self.gemini,
            }[program]
        return self.project / f".{program}"

    def short(self, path: Path) -> str:
        """Return a path as users write it."""
        for folder, name in ((self.project, ""), (self.home, "~")):
            if path.is_relative_to(folder) and path != folder:
                return str(Path(name) / path.relative_to(folder))
        return str(path)


def find_places(scope: Scope, project: Path, config_dir: Path, environment: Mapping[str, str]) -> Places:
    """Return the folders for a user with this environment; each program's own variables count."""
    home = Path(environment.get("HOME") or os.path.expanduser("~"))

    def folder(variable: str, default: Path) -> Path:
        value = environment.get(variable, "")
        return Path(os.path.expanduser(value)).absolute() if value else default

    claude = folder("CLAUDE_CONFIG_DIR", home / ".claude")
    state = claude / ".claude.json" if environment.get("CLAUDE_CONFIG_DIR") else home / ".claude.json"
    base = environment.get("XDG_CONFIG_HOME", "")
    config = Path(base) if os.path.isabs(base) else home / ".config"
    return Places(
        scope,
        home,
        project,
        config_dir,
        claude,
        folder("CODEX_HOME", home / ".codex"),
        folder("OPENCODE_CONFIG_DIR", config / "opencode"),
        folder("GEMINI_CLI_HOME", home) / ".gemini",
        state,
    )

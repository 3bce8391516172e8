"""Start settings of the built-in agent.

Owns the values and their defaults; the command line reads them from flags, files and the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from dragoman.builtin.limits import TurnLimits
from dragoman.policy.modes import DEFAULT_MODE


class AgentSettings(Struct, frozen=True):
    """Settings of one agent process. `model` is None if none was named; then every session is refused."""

    model: str | None
    store: Path
    rules_file: Path
    mode: str = DEFAULT_MODE
    uses_client_files: bool = True
    uses_client_terminals: bool = True
    limits: TurnLimits = TurnLimits()
    mcp_servers: Mapping[str, Any] = {}
    title_model: str | None = None
    """Model that names sessions; without one a session is named after its first prompt."""
    system_prompt: str = ""
    """Takes the place of the agent's own text in the system prompt."""
    append_system_prompt: str = ""
    """Added to the system prompt."""
    model_lists: Path | None = None
    """Folder that keeps the lists of models of the providers; None: they are not asked for their lists."""
    safe_commands: bool = True
    """Whether commands that only read files of the project run without asking."""
    closes_denied: bool = True
    """Whether files that rules deny are closed to commands, also outside the sandbox."""
    restores_protected: bool = False
    """Whether a protected file that a command changed is put back, where no sandbox requires that anyway."""
    unstable: bool = False
    """Whether to offer parts of the protocol that may still change."""

    @property
    def config_dir(self) -> Path:
        """Folder with the user's instructions and commands."""
        return self.rules_file.parent

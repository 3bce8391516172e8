"""Start settings of the built-in agent.

Owns the values and their defaults; the command line reads them from flags, files and the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from dragoman.builtin.limits import TurnLimits
from dragoman.builtin.modes import DEFAULT_MODE


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
    unstable: bool = False
    """Whether to offer parts of the protocol that may still change."""

    @property
    def config_dir(self) -> Path:
        """Folder with the user's instructions and commands."""
        return self.rules_file.parent

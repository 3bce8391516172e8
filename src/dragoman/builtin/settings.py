"""What the built-in agent is started with.

Owns the values and their defaults; where they come from (flags, files, environment) is the command line's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from dragoman.builtin.limits import Limits
from dragoman.builtin.modes import DEFAULT_MODE


class Settings(Struct, frozen=True):
    """One agent's settings. `model` None: none was named, so every session has to be refused."""

    model: str | None
    store: Path
    rules_file: Path
    mode: str = DEFAULT_MODE
    uses_client_files: bool = True
    uses_client_terminals: bool = True
    limits: Limits = Limits()
    mcp_servers: Mapping[str, Any] = {}
    title_model: str | None = None
    """Names sessions; without one their first prompt does."""
    unstable: bool = False
    """Whether parts of the protocol are offered that may still change."""

    @property
    def config_dir(self) -> Path:
        """Where the user's instructions and commands are."""
        return self.rules_file.parent

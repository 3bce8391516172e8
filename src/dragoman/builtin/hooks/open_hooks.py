"""The hooks of an open session, by folder: built from the settings when a client works there."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from dragoman.errors import ConfigError
from dragoman.settings.project import find_project

if TYPE_CHECKING:
    from dragoman.builtin.hooks.edits import AfterEdits
    from dragoman.builtin.hooks.session_hooks import SessionHooks
    from dragoman.builtin.session import OpenSession

_log = logging.getLogger("dragoman.builtin")


class FolderHooks(Struct, frozen=True):
    """What runs for work in one folder; None where nothing is configured, which is the usual case."""

    hooks: SessionHooks | None = None
    after_edits: AfterEdits | None = None


class OpenHooks:
    """The hooks of one session."""

    def __init__(self, session: OpenSession) -> None:
        self._session = session
        self._folders: dict[str, FolderHooks] = {}

    async def of(self, cwd: str) -> FolderHooks:
        """Return what runs for work in a folder. The settings are read once, or again until they can be read."""
        found = self._folders.get(cwd)
        if found is None:
            try:
                found = self._folders[cwd] = await self._build(cwd)
            except ConfigError as error:
                # Without the settings everything is asked about, so nothing is let through that a hook would refuse.
                _log.warning("hooks are not run: %s", error)
                return FolderHooks()
        return found

    async def close(self) -> None:
        """End what still runs."""
        for folder in self._folders.values():
            if folder.hooks is not None:
                await folder.hooks.close()

    async def _build(self, cwd: str) -> FolderHooks:
        """Raises: ConfigError."""
        settings = self._session.rules.settings_of(cwd)
        hooks, edits, proposed = settings.hooks(), settings.edit_commands(), settings.proposed_hooks()
        if proposed:
            names = " ".join(proposed)
            await self._session.warn(
                f"The project proposes {len(proposed)} hooks, which are not run",
                f"Look at each, and accept it if you want it: dragoman agents accept --hook NAME, for {names}.",
            )
        if not hooks and not edits:
            return FolderHooks()
        from dragoman.builtin.hooks.edits import AfterEdits
        from dragoman.builtin.hooks.session_hooks import SessionHooks
        from dragoman.process.command import child_environment

        root = str(find_project(Path(cwd)))
        env = child_environment({"DRAGOMAN_PROJECT_DIR": root, "CLAUDE_PROJECT_DIR": root})
        return FolderHooks(
            SessionHooks(hooks, cwd, lambda: self._facts(cwd), self._session.warn, env, settings.may_run)
            if hooks
            else None,
            AfterEdits(edits, cwd, env, settings.may_run) if edits else None,
        )

    def _facts(self, cwd: str) -> dict[str, Any]:
        session = self._session
        return {
            "session_id": session.row.id,
            "cwd": cwd,
            "permission_mode": session.mode.id,
            "model": session.model_name,
        }

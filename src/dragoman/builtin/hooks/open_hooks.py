"""The hooks of an open session, by folder: built from the settings when a client works there.

Owns also what they do around one tool call: before permission is decided, and after the work.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from dragoman.builtin.tools.foreign_names import changed_arguments, read_arguments
from dragoman.errors import ConfigError
from dragoman.settings.project import find_project

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.builtin.hooks.answer import Wish
    from dragoman.builtin.hooks.edits import AfterEdits
    from dragoman.builtin.hooks.session_hooks import HookResult, SessionHooks
    from dragoman.builtin.session import OpenSession
    from dragoman.builtin.tools.tool import Tool, ToolOutput
    from dragoman.builtin.turn import TurnContext
    from dragoman.policy import Request

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


class BeforeCall(Struct, frozen=True):
    """What hooks want before a call: the arguments to use, or why it is refused."""

    arguments: Any
    wish: Wish = ""
    refusal: str = ""
    is_changed: bool = False
    """Whether a hook gave the call other arguments than the model did."""


async def before_call(hooks: SessionHooks, tool: Tool, arguments: Any, call_id: str) -> BeforeCall:
    """Ask the hooks about a call. Raises: ToolError for changed arguments that are wrong."""
    sent = as_object(arguments)
    result = await hooks.before_tool(tool.name, sent, call_id)
    if result.wish == "deny":
        reason = result.reason or "it gave no reason"
        return BeforeCall(arguments, refusal=f"Not permitted: a hook of the user's refuses this call: {reason}")
    if result.new_input is not None:
        changed = read_arguments(tool, changed_arguments(tool.name, sent, result.new_input))
        return BeforeCall(changed, result.wish, is_changed=as_object(changed) != sent)
    return BeforeCall(arguments, result.wish)


async def after_call(
    context: TurnContext, tool: Tool, arguments: Any, output: ToolOutput, requests: Sequence[Request], seconds: float
) -> ToolOutput:
    """Return the output with what the commands after an edit and the hooks add to it."""
    if context.folder.after_edits is not None and tool.kind in ("edit", "move"):
        found = await context.folder.after_edits.run(path for request in requests for path in request.paths)
        if found:
            output = msgspec.structs.replace(output, text=f"{output.text}\n{found}")
    if context.folder.hooks is None:
        return output
    result = await context.folder.hooks.after_tool(
        tool.name, as_object(arguments), context.tool_call_id, output.text, is_error=False, seconds=seconds
    )
    text = _with_result(output.text, result)
    return output if text == output.text else msgspec.structs.replace(output, text=text)


async def after_failure(context: TurnContext, tool: Tool, arguments: Any, why: str, seconds: float) -> str:
    """Return why a call failed, with what the hooks add to it."""
    if context.folder.hooks is None:
        return why
    result = await context.folder.hooks.after_tool(
        tool.name, as_object(arguments), context.tool_call_id, why, is_error=True, seconds=seconds
    )
    return _with_result(why, result)


def _with_result(text: str, result: HookResult) -> str:
    text = text if result.new_output is None else result.new_output
    if result.wish == "deny":
        text = f"{text}\n[A hook of the user's objects: {result.reason or 'it gave no reason'}]"
    return f"{text}\n{result.context}" if result.context else text


def as_object(arguments: Any) -> dict[str, Any]:
    """Return the arguments of a call as JSON, without those that were left out."""
    found = msgspec.to_builtins(arguments)
    return {name: value for name, value in found.items() if value is not None} if isinstance(found, dict) else {}

"""What a turn is given before its loop runs: the user's message with its facts, and the context of its tool calls.

Owns which parts of the open session a turn works with. `session.py` decides when a turn runs, `loop.py` runs it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dragoman.builtin.checkpoints import KEY, Checkpoints
from dragoman.builtin.context.command import TurnCommand
from dragoman.builtin.context.environment_block import add_environment, add_line
from dragoman.builtin.context.history import COMMAND
from dragoman.builtin.context.instruction_changes import add_instruction_changes
from dragoman.builtin.context.own_commands import TURN_COMMANDS, AnswerModel, run_command
from dragoman.builtin.context.own_prompt import prompt_for
from dragoman.builtin.context.window.size import LearnedWindows, window_of
from dragoman.builtin.context.window.window import window_memory
from dragoman.builtin.mode_switch import SessionModeSwitch
from dragoman.builtin.models.choice import effort_for
from dragoman.builtin.output_files import output_folder
from dragoman.builtin.subagents.subagents import SubagentScope
from dragoman.builtin.tools.jobs import ended_jobs
from dragoman.builtin.turn import TurnContext
from dragoman.uistream.messages import TextPart

if TYPE_CHECKING:
    from dragoman.builtin.context.command import Invocation
    from dragoman.builtin.models.model import Model
    from dragoman.builtin.queued_prompt import QueuedPrompt
    from dragoman.builtin.session import OpenSession
    from dragoman.builtin.turn import TurnLog
    from dragoman.builtin.undo import SessionRewinding
    from dragoman.builtin.viewer import Viewer
    from dragoman.uistream.messages import UIMessage


async def prepare_message(session: OpenSession, prompt: QueuedPrompt, message: UIMessage) -> None:
    """Read the past, and add the day and the repository's state if the model does not know them.

    Raises: StoreError.
    """
    await session.read_past()
    if prompt.is_for_model and not prompt.viewer.is_headless:
        prompt.checkpoint = checkpoints_of(session, prompt.viewer).begin_turn()
        message.metadata = {**message.metadata, KEY: prompt.checkpoint.uid}
    if prompt.is_for_model:
        view = window_memory(session.memory).conversation.of(session.history).view()
        await asyncio.to_thread(add_environment, message, prompt.viewer.cwd, view.noted)
        await add_instruction_changes(session, prompt.viewer, message, view)
        ended = ended_jobs(session.memory)
        if ended:
            add_line(message, ended)
        if session.servers is not None:
            from dragoman.builtin.mcp.prompting import add_from_servers

            await add_from_servers(session.servers, session, prompt, message)


async def ask_hooks(session: OpenSession, prompt: QueuedPrompt, message: UIMessage) -> None:
    """Let the user's hooks look at a prompt before a model does: they can refuse it, or add something for the model."""
    hooks = (await session.hooks.of(prompt.viewer.cwd)).hooks
    if hooks is None or not prompt.is_for_model:
        return
    text = "\n".join(part.text for part in prompt.parts if isinstance(part, TextPart))
    result = await hooks.prompt(text)
    if result.wish == "deny":
        prompt.refusal = result.reason or "it gave no reason"
        message.metadata = {**message.metadata, COMMAND: {"name": "hook"}}  # so that no later request has it either
    elif result.context:
        add_line(message, result.context)


async def prepare_turn(session: OpenSession, prompt: QueuedPrompt, log: TurnLog) -> TurnContext:
    """Wait for the tools, and collect what the loop needs."""
    viewer = prompt.viewer
    folder = await session.hooks.of(viewer.cwd)
    if folder.hooks is not None:
        folder.hooks.begin_turn()
    skill = None if prompt.command is None or prompt.command.command is None else prompt.command.command.skill
    session.skills.recall(session.history)
    if skill is not None:
        session.skills.permit(skill)
    return TurnContext(
        session.row.id,
        log.message,
        tuple(session.history),
        await _model_for(session, prompt),
        session.tools,
        viewer.permissions(session.rules),
        prompt.access,
        log.emit,
        viewer.cwd,
        viewer.roots,
        output_folder(session.settings.store, session.row.id),
        session.memory,
        system=prompt_for(session, viewer, (await asyncio.shield(session.begin_instructions(viewer))).text),
        effort=effort_for(session.model_name, session.row.effort),
        limits=session.settings.limits,
        trace=prompt.trace,
        subagents=SubagentScope(session.subagents),
        skills=session.skills,
        searched_tools=_searched_tools(session, viewer) if prompt.is_for_model or _is_for_turn(prompt) else None,
        modes=None if viewer.is_headless else SessionModeSwitch(session),
        checkpoint=prompt.checkpoint,
        folder=folder,
    )


def turn_command(session: OpenSession, prompt: QueuedPrompt, called: Invocation) -> TurnCommand | None:
    """Return the command of a prompt with what it works with, if it works in the turn itself; None: a model answers."""
    if not _is_for_turn(prompt):
        return None
    rewinding: SessionRewinding | None = None
    if not prompt.viewer.is_headless:
        from dragoman.builtin.undo import SessionRewinding

        rewinding = SessionRewinding(session, checkpoints_of(session, prompt.viewer))
    return TurnCommand(called.name, called.arguments, session.settings.config_dir, rewinding)


def _is_for_turn(prompt: QueuedPrompt) -> bool:
    return prompt.command is not None and prompt.command.name in TURN_COMMANDS


def checkpoints_of(session: OpenSession, viewer: Viewer) -> Checkpoints:
    """Return the checkpoints of a session in the folders of a client; they are kept next to the store."""
    return Checkpoints(session.settings.store.parent / "checkpoints", session.row.id, viewer.roots)


async def _model_for(session: OpenSession, prompt: QueuedPrompt) -> Model:
    """Return the model that answers: the session's, when keys and MCP servers are ready, or the agent's own answer."""
    if prompt.answer:
        return AnswerModel(prompt.answer)
    if prompt.refusal:
        return AnswerModel(f"A hook of yours refused this prompt, and no model has seen it: {prompt.refusal}")
    if prompt.command is not None and not prompt.is_for_model and not _is_for_turn(prompt):
        return AnswerModel(await run_command(prompt.command, session))
    environment = session.environment
    if session.was_refused and environment is not None:
        await environment.reread_keys()  # the user may have logged in since
    model = session.model
    if environment is not None and environment.reading is not None:
        await asyncio.shield(environment.reading)
    if session.servers is not None:
        await session.servers.ready()
    session.skills.settle()
    return model


def _searched_tools(session: OpenSession, viewer: Viewer) -> frozenset[str] | None:
    """Return the names of tools that are found with `tool_search`; None if tools are listed. The servers are ready."""
    if session.servers is None or not (session.servers.tools or session.servers.are_searched):
        return None
    from dragoman.builtin.tools.deferral import searched_tools

    setting = session.rules.tool_search(viewer.cwd)
    window, _ = window_of(session.model, LearnedWindows(session))
    return searched_tools(session.servers, session.tools, setting, window)

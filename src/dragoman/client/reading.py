"""Reads what a permission request is about, or what a tool call did, from everything that the turn knows of it.

The request, the updates of the same tool call and, if a request names nothing under an id that was never announced, all
open tool calls: everything found counts, every kind is judged. What still cannot be read is stated as a `problem`: a
request of which nothing is known may be about anything. Does not judge. `tool_input.py` holds the forms of arguments;
it is a module of its own, because programs that only follow tool calls load no rules.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from dragoman.client.tool_input import ShownChange, ShownCommand, ToolInput, json_object
from dragoman.policy import Request
from dragoman.policy.parts import what_runs
from dragoman.policy.rule import PATH_KINDS
from dragoman.schema import v1
from dragoman.state import ToolCallState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dragoman.state import SessionState
    from dragoman.workspace.folders import SessionFolders

_Source: TypeAlias = v1.ToolCallPatch | ToolCallState

# These kinds change nothing, so no protected path is at stake.
_LOOKING: Final = frozenset({"read", "search", "think", "fetch"})
# There is nothing more to know of them.
_COMPLETE: Final = frozenset({"think", "switch_mode"})
_MCP_NAME: Final = re.compile(r"mcp__(?P<server>.+?)__(?P<tool>.+)", re.DOTALL)
# Kimi CLI sends what it runs as prose only, Kimi Code what it writes; a text that was cut ends with an ellipsis.
_KIMI_COMMAND: Final = re.compile(r"Requesting approval to perform: Run command `(?P<line>.+)`", re.DOTALL)
_KIMI_PATH: Final = re.compile(r"Requesting approval to (?:Writing|Editing) (?P<path>/.*[^…])")
# Gemini CLI and Qwen Code send no input; for their shell tool the title is the command line.
_GEMINI_SHELL: Final = re.compile(r"run_shell_command[_-].*")
# Gemini asks about its to-do list too, which is neither a file nor a command.
_GEMINI_TODOS: Final = re.compile(r"write_todos[_-].*")


class SeenSession(Protocol):
    """A session, as far as its tool calls are concerned."""

    @property
    def id(self) -> str: ...

    @property
    def state(self) -> SessionState: ...


class Evidence(Struct, frozen=True):
    """What a permission request is about: one request for the rules per kind and command, all of which have to be
    allowed, and what was shown of changes and commands. `problem` states why something could not be read,
    `tool_call_id` is the call that it belongs to.
    """

    requests: tuple[Request, ...]
    changes: tuple[ShownChange, ...] = ()
    commands: tuple[ShownCommand, ...] = ()
    problem: str = ""
    tool_call_id: str = ""

    @property
    def is_mcp(self) -> bool:
        """Whether this is a tool of an MCP server, which runs in the server and not in the client."""
        return self.requests[0].mcp is not None


def read_request(
    request: v1.RequestPermissionRequest,
    state: SessionState,
    announced: ToolCallState | None,
    folders: SessionFolders,
    *,
    agent: str,
) -> Evidence:
    """What a permission request is about, as `describe` finds it, with the paths of this moment."""
    found = describe(request, state, announced, agent=agent, root=folders.given_project)
    return _settle(found, folders, agent)


def read_call(call: ToolCallState, session: SeenSession, folders: SessionFolders, *, agent: str) -> Evidence:
    """What a tool call did, as if permission had been requested for it: all that is known, and each change it shows."""
    # Texts of a completed call are its output, not what it was about.
    diffs = [item for item in call.content if isinstance(item, v1.Diff)]
    patch = v1.ToolCallPatch(
        call.id,
        title=call.title,
        kind=call.kind,
        raw_input=call.raw_input,
        content=diffs,
        locations=list(call.locations),
    )
    asked = v1.RequestPermissionRequest(session.id, patch, [])
    evidence = read_request(asked, session.state, call, folders, agent=agent)
    changed = [diff.path for diff in diffs if diff.old_text != diff.new_text]
    if changed and all(request.kind != "edit" for request in evidence.requests):
        edit = folders.settle_request(Request(agent, "edit", call.title, paths=tuple(changed)), agent)
        evidence = replace(evidence, requests=(*evidence.requests, edit))
    return evidence


def describe(
    request: v1.RequestPermissionRequest,
    state: SessionState,
    announced: ToolCallState | None,
    *,
    agent: str,
    root: str,
    home: str = "",
) -> Evidence:
    """The permission request as evidence for the rules.

    Args:
        request: the agent's `session/request_permission`.
        state: the session's state.
        announced: the tool call as updates reported it before this request.
        agent: the agent's name, as rules state it.
        root: the project's folder.
        home: the user's home folder.
    """
    sources = _sources(request.tool_call, state, announced)
    kinds = dict.fromkeys(source.kind for source in sources if source.kind and source.kind != "other")
    title = next((source.title for source in sources if source.title), "")
    shared = Request(agent, next(iter(kinds), "other"), title, root=root, home=home)
    for source in sources:
        mcp = _mcp_tool(source)
        if mcp is not None:
            paths = dict.fromkeys(location.path for each in sources for location in each.locations or ())
            found_mcp = replace(shared, mcp=mcp, paths=tuple(paths))
            return Evidence((found_mcp,), tool_call_id=request.tool_call.tool_call_id)
    found = ToolInput(root)
    found.kinds.update(kinds)
    for source in sources:
        _read_source(source, found, is_command="execute" in kinds)
    # The agent chooses the id; the user chose the agent. So the form counts only for the agent that has it.
    is_gemini = agent.partition("-")[0] == "gemini"
    is_todo_list = is_gemini and _GEMINI_TODOS.fullmatch(request.tool_call.tool_call_id) is not None
    evidence = _conclude(found, shared, is_complete=is_todo_list)
    return replace(evidence, tool_call_id=request.tool_call.tool_call_id)


def _sources(call: v1.ToolCallPatch, state: SessionState, announced: ToolCallState | None) -> list[_Source]:
    """Everything that was reported about a call, newest first."""
    turn = len(state.turns) - 1
    if announced is not None and announced.turn != turn:
        announced = None  # the agent used an id again: the old call is not this one
    if announced is not None:
        return [call] if announced.is_finished else [call, announced]
    if call.raw_input or call.content or call.locations:
        return [call]
    others = [other for other in state.tool_calls.values() if other.id != call.tool_call_id and other.turn == turn]
    return [call, *(other for other in others if other.is_running)]


def _read_source(source: _Source, found: ToolInput, *, is_command: bool) -> None:
    if source.raw_input:
        found.read(source.raw_input, is_command=is_command)
    texts = []
    for item in source.content or ():
        if isinstance(item, v1.Diff):
            found.add_change(item.path, item.old_text or None, item.new_text)
        elif isinstance(item, v1.Content) and isinstance(item.content, v1.TextContent):
            texts.append(item.content.text)
    for text in texts:
        if (arguments := json_object(text)) is not None:
            found.read(arguments, is_command=is_command)
    if len(texts) == 1:
        if command := _KIMI_COMMAND.fullmatch(texts[0]):
            found.add_line(command["line"])
        elif path := _KIMI_PATH.fullmatch(texts[0]):
            found.kinds["edit"] = None
            found.add_path(path["path"])
    for location in source.locations or ():
        found.add_path(location.path)
    tool_call_id = source.id if isinstance(source, ToolCallState) else source.tool_call_id
    if source.kind == "execute" and source.title and _GEMINI_SHELL.fullmatch(tool_call_id):
        found.add_line(source.title)


def _conclude(found: ToolInput, shared: Request, *, is_complete: bool) -> Evidence:
    """One request for the rules per kind that was stated or follows from what was found."""
    commands = _distinct(found.commands, shared.root)
    paths, hosts = tuple(found.paths), tuple(found.hosts)
    kinds = dict(found.kinds)
    if commands:
        kinds["execute"] = None
    if hosts:
        kinds["fetch"] = None
    if not kinds and paths:
        kinds = {"edit": None, "read": None}  # an unknown tool may do either
    if commands or hosts or found.changes:
        kinds = {kind: None for kind in kinds if paths or kind not in ("read", "search")}
    requests: list[Request] = []
    problem = found.problem
    for kind in kinds or {"other": None}:
        base = replace(shared, kind=kind)
        if kind == "execute" and commands:
            requests += [replace(base, command=c.argv, shell=c.line, cwd=c.cwd, paths=paths) for c in commands]
        elif kind == "fetch" and hosts:
            requests += [replace(base, host=host) for host in hosts]
        else:
            requests.append(replace(base, paths=paths))
            is_known = kind in _COMPLETE or (kind == "other" and is_complete)
            if not is_known and not (kind in PATH_KINDS and (paths or commands)):
                problem = problem or f"it names no {_OBJECTS.get(kind, 'file and no command')}"
    if problem:
        requests += _unread(requests, shared)
    read = tuple(replace(request, unreadable=problem) for request in requests)
    return Evidence(read, tuple(found.changes), commands, problem)


def _unread(requests: Sequence[Request], shared: Request) -> list[Request]:
    """What has to be allowed next to the files and commands that were found: what could not be read of the request.

    A request that names nothing stands for that itself.
    """
    found: dict[str, Request] = {}
    for request in requests:
        if request.kind in _LOOKING and request.paths:
            found[request.kind] = replace(request, paths=())
        elif request.command is not None or request.shell is not None:
            found["other"] = replace(shared, kind="other")
    return list(found.values())


_OBJECTS: Final = {"execute": "command", "fetch": "address", **dict.fromkeys(PATH_KINDS, "file")}


def _distinct(commands: Iterable[ShownCommand], root: str) -> tuple[ShownCommand, ...]:
    """The commands without repetitions: Copilot names each twice, others once as words and once as a line."""
    found: dict[object, ShownCommand] = {}
    for command in commands:
        place = os.path.normpath(os.path.join(root, command.cwd))
        found.setdefault((what_runs(command.argv, command.line), place), command)
    return tuple(found.values())


def _settle(evidence: Evidence, folders: SessionFolders, agent: str) -> Evidence:
    """The same evidence with all paths made absolute and links resolved, as they are now."""
    changes: list[ShownChange] = []
    for change in evidence.changes:
        settled = replace(change, path=folders.resolve(change.path))
        # Many agents send a change twice: as arguments and as a diff.
        if not any(settled.is_like(known) for known in changes):
            changes.append(settled)
    requests = tuple(folders.settle_request(request, agent) for request in evidence.requests)
    return replace(evidence, requests=requests, changes=tuple(changes))


def _mcp_tool(source: _Source) -> tuple[str, str] | None:
    vendor = (source.meta or {}).get("claudeCode")
    names = (source.name, vendor.get("toolName") if isinstance(vendor, dict) else None)
    for name in names:
        if isinstance(name, str) and (found := _MCP_NAME.fullmatch(name)):
            return found["server"], found["tool"]
    ours = (source.meta or {}).get("dragoman")
    named = ours.get("mcp") if isinstance(ours, dict) else None
    raw: Any = named if isinstance(named, dict) else source.raw_input
    if isinstance(raw, dict) and {"server", "tool"} <= raw.keys() <= {"server", "tool", "arguments", "invocation"}:
        server, tool = raw["server"], raw["tool"]
        if isinstance(server, str) and isinstance(tool, str):
            return server, tool
    return None

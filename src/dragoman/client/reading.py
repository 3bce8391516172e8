"""What a permission request is about, or what a tool call did, read from everything that the turn knows of it.

The one place where what an agent sends becomes requests for the rules. The request, the updates of the same tool call
and, if a request names nothing under an id that was never announced, all open tool calls: everything found counts,
every kind is judged. What still cannot be read is stated as a `problem`: a request of which nothing is known may be
about anything. Does not judge, and leaves the disk to `SessionFolders`. Programs that only follow tool calls use
`ToolInput` and load no rules for it, so nothing is imported here that loads them.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman.policy.paths import is_below
from dragoman.policy.request import PATH_KINDS, Command, Request
from dragoman.schema import v1
from dragoman.state import ToolCallState
from dragoman.state.tools import FINISHED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from msgspec import UnsetType

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
# Hermes shows a command as the content of the call that it announces; what was cut ends with an ellipsis.
_SHOWN_LINE: Final = re.compile(r"\$ (?P<line>.*[^\s…])\s*", re.DOTALL)
# What titles say before a command line, in the recordings: "terminal: LINE", "Shell: LINE", "Run `LINE`".
_TITLE_TOOL: Final = re.compile(
    r"(?:terminal|shell|bash|command|execute|run|running)(?::\s*|\s+(?=`))|\$\s+", re.IGNORECASE
)
_CUT_TITLE: Final = re.compile(r".*…|.{74,}\.\.\.", re.DOTALL)
# Gemini asks about its to-do list too, which is neither a file nor a command.
_GEMINI_TODOS: Final = re.compile(r"write_todos[_-].*")
# Hermes sends no input with its to-do list either.
_HERMES_TODOS: Final = re.compile(r"todo(?:: .*| \(\d+ items?\))?")
_MOST_ANNOUNCED: Final = 10_000  # calls of one session; the texts are those of its state
_OBJECTS: Final = {"execute": "command", "fetch": "address", **dict.fromkeys(PATH_KINDS, "file")}


class SeenSession(Protocol):
    """A session, as far as its tool calls are concerned."""

    @property
    def id(self) -> str: ...

    @property
    def state(self) -> SessionState: ...


class ShownChange(Struct, frozen=True):
    """A change of a file that was shown: `old` is None if `new` is the whole text, otherwise a piece or all of it."""

    path: str
    old: str | None
    new: str
    is_everywhere: bool = False

    def is_like(self, other: ShownChange) -> bool:
        """Whether both show the same change, up to one newline at the end."""
        return self.path == other.path and self.old == other.old and is_same_text(self.new, other.new)


class Evidence(Struct, frozen=True):
    """What a permission request is about: one request for the rules per kind and command, all of which have to be
    allowed, and what was shown of changes and commands. `problem` states why something could not be read,
    `tool_call_id` is the call that it belongs to. `suspected` is what a call that has ended only shows users, such as a
    command in its title: that may show something denied, but not that there was nothing else.
    """

    requests: tuple[Request, ...]
    changes: tuple[ShownChange, ...] = ()
    commands: tuple[Command, ...] = ()
    problem: str = ""
    tool_call_id: str = ""
    suspected: tuple[Request, ...] = ()


def read_request(
    request: v1.RequestPermissionRequest,
    state: SessionState,
    announced: ToolCallState | None,
    folders: SessionFolders,
    *,
    agent: str,
) -> Evidence:
    """Return what a permission request is about, as `describe` finds it, with all paths as they lead now."""
    evidence = describe(request, state, announced, agent=agent, root=folders.given_project)
    changes: list[ShownChange] = []
    for change in evidence.changes:
        settled = replace(change, path=folders.resolve(change.path))
        # Many agents send a change twice: as arguments and as a diff.
        if not any(settled.is_like(other) for other in changes):
            changes.append(settled)
    requests = tuple(folders.settle_request(request, agent) for request in evidence.requests)
    return replace(evidence, requests=requests, changes=tuple(changes))


class Announcements:
    """What tool calls showed as content before they ended: some agents send no input, and show it only there."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def note(self, update: v1.ToolCall | v1.ToolCallUpdate) -> None:
        """Keep what an update shows of a call that has not ended, before the next one replaces it."""
        id = update.tool_call_id
        if isinstance(update, v1.ToolCall):
            self._texts.pop(id, None)  # an id that is used again
        text = "" if update.status in FINISHED else next((text for text in _texts(update.content)), "")
        if not text or (id not in self._texts and len(self._texts) >= _MOST_ANNOUNCED):
            return
        # Kimi sends the arguments as JSON that grows. Anything else that comes after the first text is output.
        known = self._texts.setdefault(id, text)
        if known.lstrip().startswith("{") and text.startswith(known):
            self._texts[id] = text

    def of(self, call: ToolCallState) -> list[v1.Content]:
        """Return what a call showed, in place of an input or of the command that its input lacks."""
        text = self._texts.get(call.id, "")
        is_shown = bool(text) and (not call.raw_input or _SHOWN_LINE.fullmatch(text) is not None)
        return [v1.Content(v1.TextContent(text))] if is_shown else []


def read_call(
    call: ToolCallState,
    session: SeenSession,
    folders: SessionFolders,
    *,
    agent: str,
    announced: Sequence[v1.Content] = (),
) -> Evidence:
    """Return what a tool call did, as if permission had been requested for it.

    It is all that is known, and each change that the call shows.

    Args:
        call: as it was reported when it had ended.
        session: the session that it belongs to.
        folders: of the session.
        agent: the agent's name, as rules state it.
        announced: what the call showed before, from `Announcements`.
    """
    # Texts of a completed call are its output, not what it was about.
    diffs = [item for item in call.content if isinstance(item, v1.Diff)]
    patch = v1.ToolCallPatch(
        call.id,
        title=call.title,
        name=call.name,
        kind=call.kind,
        raw_input=call.raw_input,
        content=[*diffs, *announced],
        locations=list(call.locations),
    )
    asked = v1.RequestPermissionRequest(session.id, patch, [])
    evidence = read_request(asked, session.state, call, folders, agent=agent)
    changed = [diff.path for diff in diffs if diff.old_text != diff.new_text]
    if changed and all(request.kind != "edit" for request in evidence.requests):
        edit = folders.settle_request(Request(agent, "edit", call.title, paths=tuple(changed)), agent)
        evidence = replace(evidence, requests=(*evidence.requests, edit))
    if evidence.problem and call.kind == "other" and _is_todo_list(call, announced, agent):
        return Evidence((), tool_call_id=call.id)
    if evidence.problem and not evidence.commands:
        commands = [Command(line=line) for line in _shown_lines(call)]
        shown = (Request(agent, "execute", call.title, command=command) for command in commands)
        evidence = replace(evidence, suspected=tuple(folders.settle_request(request, agent) for request in shown))
    return evidence


def _is_todo_list(call: ToolCallState, announced: Sequence[v1.Content], agent: str) -> bool:
    """Whether a call only kept a list of steps, which is neither a file nor a command."""
    if not call.raw_input and agent.partition("-")[0] == "hermes" and _HERMES_TODOS.fullmatch(call.title):
        return True
    shown = next((found for text in _texts(announced) if (found := _json_object(text))), None)
    given = call.raw_input or shown
    if not isinstance(given, dict):
        return False
    steps = [value for key, value in given.items() if _plain(key) in _STEP_LISTS]
    others = [value for key, value in given.items() if _plain(key) not in _STEP_LISTS | {"explanation", "merge"}]
    return bool(steps) and not others and all(map(_is_steps, steps))


def _is_steps(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(step, dict) and {_plain(key) for key in step} <= _STEP_KEYS for step in value
    )


def _shown_lines(call: ToolCallState) -> Iterator[str]:
    """Yield what may be the command of a call that sends none: in its title, and where a shell shows it."""
    title = call.title.strip()
    tool = _TITLE_TOOL.match(title)
    if (tool or call.kind == "execute") and not _CUT_TITLE.fullmatch(title):
        line = title[tool.end() :] if tool else title
        if line.strip("` "):
            yield line.strip("` ")
    text = next((text for text in _texts(call.content)), "")
    if shown := _SHOWN_LINE.fullmatch(text.partition("\n")[0]):
        yield shown["line"]


def _texts(content: Sequence[v1.ToolCallContent] | UnsetType | None) -> Iterator[str]:
    for item in content or ():
        if isinstance(item, v1.Content) and isinstance(item.content, v1.TextContent):
            yield item.content.text


def describe(
    request: v1.RequestPermissionRequest,
    state: SessionState,
    announced: ToolCallState | None,
    *,
    agent: str,
    root: str,
    home: str = "",
) -> Evidence:
    """Return the permission request as evidence for the rules.

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
    shared = Request(agent, next(iter(kinds), "other"), title, tool=_tool_name(sources), root=root, home=home)
    for source in sources:
        mcp = _mcp_tool(source)
        if mcp is not None:
            paths = dict.fromkeys(location.path for other in sources for location in other.locations or ())
            found_mcp = replace(shared, mcp=mcp, paths=tuple(paths))
            return Evidence((found_mcp,), tool_call_id=request.tool_call.tool_call_id)
    found = ToolInput(root)
    found.kinds.update(kinds)
    for source in sources:
        _read_source(source, found, is_command="execute" in kinds, may_run="execute" in kinds or not kinds)
    # The agent chooses the id; the user chose the agent. So the form counts only for the agent that has it.
    is_gemini = agent.partition("-")[0] == "gemini"
    is_todo_list = is_gemini and _GEMINI_TODOS.fullmatch(request.tool_call.tool_call_id) is not None
    evidence = _conclude(found, shared, is_complete=is_todo_list)
    return replace(evidence, tool_call_id=request.tool_call.tool_call_id)


def current_report(announced: ToolCallState | None, state: SessionState) -> ToolCallState | None:
    """Return what was reported of a call before a request with its id, if it is about the same call.

    An agent may use an id again, in another turn or after the call is over.
    """
    is_same = announced is not None and announced.turn == state.turn_count - 1 and not announced.is_finished
    return announced if is_same else None


def _sources(call: v1.ToolCallPatch, state: SessionState, announced: ToolCallState | None) -> list[_Source]:
    """Return everything that was reported about a call, newest first."""
    turn = state.turn_count - 1
    if announced is not None and announced.turn == turn:
        return [call] if announced.is_finished else [call, announced]
    if call.raw_input or call.content or call.locations:
        return [call]
    others = [other for other in state.tool_calls.values() if other.id != call.tool_call_id and other.turn == turn]
    return [call, *(other for other in others if other.is_running)]


def _read_source(source: _Source, found: ToolInput, *, is_command: bool, may_run: bool) -> None:
    if source.raw_input:
        found.read(source.raw_input, is_command=is_command)
    texts = list(_texts(source.content))
    for item in source.content or ():
        if isinstance(item, v1.Diff):
            found.add_change(item.path, item.old_text or None, item.new_text)
    for text in texts:
        if (arguments := _json_object(text)) is not None:
            found.read(arguments, is_command=is_command)
    if len(texts) == 1:
        if command := _KIMI_COMMAND.fullmatch(texts[0]):
            found.add_line(command["line"])
        elif path := _KIMI_PATH.fullmatch(texts[0]):
            found.kinds["edit"] = None
            found.add_path(path["path"])
        elif may_run and not found.commands and (shown := _SHOWN_LINE.fullmatch(texts[0])):
            found.add_line(shown["line"])
    for location in source.locations or ():
        found.add_path(location.path)
    tool_call_id = source.id if isinstance(source, ToolCallState) else source.tool_call_id
    if source.kind == "execute" and source.title and _GEMINI_SHELL.fullmatch(tool_call_id):
        found.add_line(source.title)


def _conclude(found: ToolInput, shared: Request, *, is_complete: bool) -> Evidence:
    """Return one request for the rules per kind that was stated or follows from what was found."""
    # Copilot names each command twice, others once as words and once as a line.
    distinct: dict[object, Command] = {}
    for command in found.commands:
        place = os.path.normpath(os.path.join(shared.root, command.cwd))
        distinct.setdefault((command.runs, place), command)
    commands = tuple(distinct.values())
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
            requests += [replace(base, command=command, paths=paths) for command in commands]
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
    """Return what has to be allowed next to the files and commands found: what could not be read of the request.

    A request that names nothing stands for that itself.
    """
    found: dict[str, Request] = {}
    for request in requests:
        if request.kind in _LOOKING and request.paths:
            found[request.kind] = replace(request, paths=())
        elif request.command is not None:
            found["other"] = replace(shared, kind="other")
    return list(found.values())


def _tool_name(sources: Sequence[_Source]) -> str:
    """Return the name that the agent states for the tool (rule 250); empty without one, or if it states two.

    Not the title, which is prose that a model may have written.
    """
    names = {source.name for source in sources if source.name}
    return names.pop() if len(names) == 1 else ""


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


# The arguments of tools

_MOST_DEPTH: Final = 6  # objects in objects; the deepest recorded agent nests three


def _keys(text: str) -> frozenset[str]:
    return frozenset(text.split())


_STEP_LISTS: Final = _keys("todos plan todolist")
_STEP_KEYS: Final = _keys("content text step title description status id priority activeform parent")
_PATH_KEYS: Final = _keys(
    "path file filepath filename abspath absolutepath notebookpath targetfile source destination oldpath newpath"
)
_LIST_KEYS: Final = _keys("files edits changes paths filepaths")
_COMMAND_KEYS: Final = _keys("command cmd commandline shellcommand script argv")
_ARGUMENT_KEYS: Final = ("args", "arguments")
_FOLDER_KEYS: Final = _keys("cwd workdir workingdirectory directory dirpath")
_TEXT_KEYS: Final = _keys(
    "content contents newstring oldstring newstr oldstr newtext oldtext filetext description reason prompt summary"
    " thought title old new text"
)
_NEW_KEYS: Final = _keys("newstring newstr newtext new")
_OLD_KEYS: Final = _keys("oldstring oldstr oldtext old")
_WHOLE_KEYS: Final = _keys("content contents filetext text")
_EVERYWHERE_KEYS: Final = _keys("replaceall all")
_JSON_KEYS: Final = _keys("arguments input params parameters")
# Rules that an agent proposes to itself: it does not run them.
_PROPOSALS: Final = re.compile(r"proposed.*|.*amendment|(permission)?suggestions")
# Editing tools have a member `command` for what they do to a file.
_READING_WORDS: Final = _keys("view read")
_EDITING_WORDS: Final = _keys("create str_replace insert undo_edit write edit") | _READING_WORDS
_HOST: Final = re.compile(r"[A-Za-z0-9_.-]+|[0-9A-Fa-f:.]+")
_PATCH_FILE: Final = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (?P<path>[^\r\n]+)", re.MULTILINE)
_UNIFIED: Final = re.compile(r"^--- (?P<old>[^\r\n]+)\r?\n\+\+\+ (?P<new>[^\r\n]+)", re.MULTILINE)
_RENAMED: Final = re.compile(r"^(?:rename|copy) (?:from|to) (?P<path>[^\r\n]+)", re.MULTILINE)
# `b/etc/passwd` in a patch may be an absolute path behind the letter, as Copilot writes it.
_TOP_FOLDERS: Final = ("etc/", "home/", "root/", "Users/")


class ToolInput:
    """What was found in the arguments of a tool so far, in the order in which it was found."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.kinds: dict[str, None] = {}
        self.paths: dict[str, None] = {}
        self.commands: dict[Command, None] = {}
        self.changes: dict[ShownChange, None] = {}
        self.hosts: dict[str, None] = {}
        self.problem = ""

    def add_path(self, path: object) -> None:
        if isinstance(path, str) and path:
            self.paths[path] = None

    def add_change(self, path: str, old: str | None, new: str, *, is_everywhere: bool = False) -> None:
        self.add_path(path)
        self.kinds["edit"] = None
        self.changes[ShownChange(path, old, new, is_everywhere)] = None

    def add_line(self, line: str) -> None:
        self.commands[Command(line=line)] = None

    def read(self, value: Any, *, is_command: bool) -> None:
        """Read the arguments of a tool; `is_command` if the tool is known to run commands."""
        arguments = _json_object(value) if isinstance(value, str) else None
        self._read(value if arguments is None else arguments, 0, "", is_command)

    def _read(self, value: Any, depth: int, cwd: str, is_command: bool) -> None:
        if isinstance(value, str):
            self._read_text(value)
        elif isinstance(value, dict | list) and value and depth > _MOST_DEPTH:
            self.problem = "its input is nested too deeply"
        elif isinstance(value, list):
            for item in value:
                # A list in a list counts as deeper, so that no input is read without an end.
                self._read(item, depth + isinstance(item, list), cwd, is_command)
        elif isinstance(value, dict):
            self._read_object(value, depth, cwd, is_command)

    def _read_object(self, raw: dict[str, Any], depth: int, cwd: str, is_command: bool) -> None:
        members = [(key, _plain(key), value) for key, value in raw.items()]
        cwd = next((value for _, key, value in members if key in _FOLDER_KEYS and isinstance(value, str)), cwd)
        has_path = any(key in _PATH_KEYS and isinstance(value, str) for _, key, value in members)
        self._read_commands(members, cwd, is_editing=has_path and not is_command)
        self._read_change(members)
        for _, key, value in members:
            if key in _TEXT_KEYS or key in _COMMAND_KEYS or key == "commands" or _PROPOSALS.fullmatch(key):
                continue
            if key in ("url", "uri"):
                self._read_address(value)
            elif key in _PATH_KEYS and isinstance(value, str):
                self.add_path(value)
            elif key in _LIST_KEYS or (key in _PATH_KEYS and isinstance(value, list)):
                self._read_files(value, depth, cwd, is_command)
            elif key in _JSON_KEYS and isinstance(value, str) and (inner := _json_object(value)) is not None:
                self._read(inner, depth + 1, cwd, is_command)
            elif isinstance(value, dict | list | str):
                self._read(value, depth + isinstance(value, dict), cwd, is_command)

    def _read_files(self, value: Any, depth: int, cwd: str, is_command: bool) -> None:
        """Read several files: paths, objects with a path, or an object whose keys are paths."""
        if isinstance(value, str):
            self.add_path(value)
        elif isinstance(value, list):
            for file in value:
                if isinstance(file, str):
                    self.add_path(file)
                else:
                    self._read(file, depth + 1, cwd, is_command)
        elif isinstance(value, dict):
            if not any(_plain(key) in _PATH_KEYS | _TEXT_KEYS for key in value):
                for path, change in value.items():
                    self.add_path(path)
                    self._read(change, depth + 2, cwd, is_command)
            else:
                self._read(value, depth + 1, cwd, is_command)

    def _read_commands(self, members: list[tuple[str, str, Any]], cwd: str, *, is_editing: bool) -> None:
        values = {key: value for _, key, value in members}
        arguments = next((values[key] for key in _ARGUMENT_KEYS if values.get(key)), None)
        for _, key, value in members:
            if not value:
                continue
            if key == "commands":
                for command in value if isinstance(value, list) else [value]:
                    self._add_command(command, None, cwd)
            elif key in _COMMAND_KEYS:
                if is_editing and isinstance(value, str) and value in _EDITING_WORDS:
                    self.kinds["read" if value in _READING_WORDS else "edit"] = None
                else:
                    self._add_command(value, arguments, cwd)

    def _add_command(self, value: Any, arguments: Any, cwd: str) -> None:
        words = [value] if isinstance(value, str) else value
        arguments = [] if arguments is None else arguments
        if not _is_words(words) or not _is_words(arguments):
            self.kinds["execute"] = None
            self.problem = "its command has an unknown form"
        elif isinstance(value, str) and not arguments:
            self.commands[Command(line=value, cwd=cwd)] = None
        elif words:
            self.commands[Command((*words, *arguments), cwd=cwd)] = None

    def _read_change(self, members: list[tuple[str, str, Any]]) -> None:
        """Read a path with the text that is written to it, or with a piece and what replaces it."""
        texts = {key: value for _, key, value in members if isinstance(value, str)}
        path = next((value for key, value in texts.items() if key in _PATH_KEYS), None)
        if path is None:
            return
        old = next((value for key, value in texts.items() if key in _OLD_KEYS), None)
        new = next((value for key, value in texts.items() if key in _NEW_KEYS), None)
        whole = next((value for key, value in texts.items() if key in _WHOLE_KEYS), None)
        if old and new is not None:
            is_everywhere = any(key in _EVERYWHERE_KEYS and value is True for _, key, value in members)
            self.add_change(path, old, new, is_everywhere=is_everywhere)
        elif whole is not None and new is None and old is None:
            self.add_change(path, None, whole)

    def _read_address(self, value: Any) -> None:
        if isinstance(value, str) and value.startswith("file://"):
            from urllib.parse import unquote

            self.add_path("/" + unquote(value.removeprefix("file://")).partition("/")[2])
        elif (host := _find_host(value)) is not None:
            self.hosts[host] = None

    def _read_text(self, text: str) -> None:
        """Read the files that a patch names; any other text has nothing to read."""
        for path in _patched_files(text, self.root, self.paths):
            self.kinds["edit"] = None
            self.add_path(path)


def is_same_text(one: str, other: str) -> bool:
    """Whether two texts are equal up to one newline at the end, which some agents do not show."""
    return one == other or one == f"{other}\n" or f"{one}\n" == other


def _plain(key: str) -> str:
    return key.replace("_", "").lower()


def _is_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


def _json_object(text: str) -> dict[str, Any] | None:
    """Return the object that a text is, whole; None for anything else, such as the beginning of one."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
    return found if isinstance(found, dict) else None


def _patched_files(text: str, root: str, known: Any) -> Iterator[str]:
    """Yield the files that a patch changes, in the format of `apply_patch` or as a unified diff."""
    for found in _PATCH_FILE.finditer(text):
        yield os.path.join(root, found["path"].strip())
    for found in _UNIFIED.finditer(text):
        for header in found.groups():
            yield from _unified_path(header.partition("\t")[0].strip().strip('"'), root, known)
    if text.lstrip().startswith("diff --git "):
        for found in _RENAMED.finditer(text):
            yield os.path.join(root, found["path"].strip())


def _unified_path(header: str, root: str, known: Any) -> Iterator[str]:
    path = header[2:] if header.startswith(("a/", "b/")) else header
    if path in ("/dev/null", "dev/null"):
        return
    absolute = "/" + path.lstrip("/")
    if path.startswith("/") or is_below(absolute, root) or absolute in known:
        yield absolute
        return
    yield os.path.join(root, path)
    if path.startswith(_TOP_FOLDERS):
        yield absolute


def _find_host(url: Any) -> str | None:
    """Return the host that an address leads to, None if readers of addresses could disagree about it."""
    # Browsers read a backslash as a slash and this parser does not: they would see different hosts.
    if not isinstance(url, str) or not url or "\\" in url or not url.isprintable() or " " in url:
        return None
    from urllib.parse import urlsplit

    try:
        host = urlsplit(url if "://" in url else f"https://{url}").hostname
    except ValueError:
        return None
    return host if host and _HOST.fullmatch(host) else None

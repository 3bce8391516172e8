"""The result of a run: one object, complete however the run ends, with a schema scripts can rely on.

The schema is made from these Structs (`dragoman exec --schema` prints it) and explained in docs/exec.md. Members may be
added within a version, never removed or given another meaning.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct, structs

from dragoman.schema import UNSET, v1
from dragoman.state.tools import ToolCallState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dragoman.policy.decide import Decision
    from dragoman.process.sandbox.confinement import FinishedCommand
    from dragoman.state import Message, SessionState
    from dragoman.state.turns import TurnState
    from dragoman.workspace import Change

# Names in the published schema that differ from those of the classes. They are part of the contract.
_PUBLISHED: Final = {
    "RunAgent": "Agent",
    "RunCommand": "Command",
    "RunLocation": "Location",
    "RunPermission": "Permission",
    "RunResult": "Result",
    "RunSandbox": "Sandbox",
    "RunUnjudged": "Unjudged",
    "RunUsage": "Usage",
    "RunViolation": "Violation",
    "RunWaiting": "Waiting",
    "RunRetry": "Retry",
    "RunDurations": "Durations",
    "RunDiff": "Diff",
    "RunOption": "Option",
    "RunPatch": "Patch",
    "TreeChangeResult": "TreeChange",
    "CommandEvent": "FinishedCommand",
    "InitializedEvent": "Initialized",
    "RetryEvent": "Retrying",
    "StartingEvent": "Starting",
    "EndEvent": "End",
    "MessageEvent": "Message",
    "OpenedEvent": "Opened",
    "NoteEvent": "Note",
    "ProgressEvent": "Progress",
    "ModeEvent": "Mode",
    "OtherEvent": "Other",
    "TerminalEvent": "Terminal",
    "ThoughtEvent": "Thought",
}

ErrorKind = Literal[
    "cancelled",
    "terminated",
    "timed_out",
    "bug",
    "usage",
    "agent_died",
    "auth_required",
    "agent_error",
    "nobody_to_ask",
    "stopped_early",
    "denied",
    "violation",
    "unjudged",
]


class RunWaiting(Struct):
    """What a run was waiting for."""

    what: Literal["start", "session", "model", "retry", "tool", "permission", "answer"]
    name: str | None
    """The tool call, the permission, or what the agent reports about its model."""


class Error(Struct, kw_only=True):
    """Why the exit code is not 0."""

    kind: ErrorKind
    message: str
    hint: str | None = None
    code: int | None = None
    """The JSON-RPC code of the agent's answer."""
    data: Any = None
    """The data of the agent's answer, of any type."""
    cause: str | None = None
    """What `data` names as the cause, as one line."""
    waiting_for: RunWaiting | None = None
    """What a timeout interrupted."""
    returncode: int | None = None
    """How the agent's process ended; negative for a signal."""
    stderr_tail: str | None = None
    login_methods: list[str] = []


class RunAgent(Struct, kw_only=True):
    """The agent that the prompt was sent to."""

    name: str | None
    """As configured; null for a command after `--`."""
    command: list[str]
    title: str | None = None
    """The agent's own name for itself."""
    version: str | None = None


class Cost(Struct):
    """The cost of the session so far, as the agent reports it."""

    amount: float
    currency: str


class RunUsage(Struct, kw_only=True):
    """Usage as the agent reported it; null for what it did not report."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    thought_tokens: int | None = None
    cached_read_tokens: int | None = None
    cached_write_tokens: int | None = None
    context_used: int | None = None
    context_size: int | None = None
    cost: Cost | None = None


class RunLocation(Struct):
    """A place in a file."""

    path: str
    line: int | None = None


class RunDiff(Struct):
    """A change of a file that a tool call shows: the whole text, or the piece that was replaced."""

    path: str
    old_text: str | None
    """Null for a new file."""
    new_text: str


class ToolCall(Struct, kw_only=True):
    """A tool call of the turn, as last reported. Long texts are cut, with a notice in their place."""

    id: str
    title: str
    kind: str
    status: str
    is_open: bool
    """Neither completed nor failed when the turn ended or was interrupted."""
    locations: list[RunLocation] = []
    terminals: list[str] = []
    """The terminals that it shows; `commands` states in which sandbox each of them ran."""
    command: str | None = None
    """The command line, if it runs one; several are separated by line breaks."""
    paths: list[str] = []
    """The files it is about: of its locations, its changes and its input."""
    input: Any = None
    """The arguments of the tool, as the agent reports them."""
    output: str | None = None
    """What it returned or printed, as text; null before its end, and if the agent does not report it."""
    exit_code: int | None = None
    """The exit code of its command."""
    diffs: list[RunDiff] = []
    started_at: str | None = None
    """When it was first reported, as RFC 3339 with milliseconds; the clock is ours."""
    ended_at: str | None = None
    """When it was first reported as completed or failed."""


class FileChange(Struct, kw_only=True):
    """A file that differs from before the turn."""

    path: str
    change: Literal["created", "modified", "deleted"]
    seen_by: list[Literal["workspace", "tool_call", "snapshot"]]
    """`workspace`: dragoman wrote it for the agent. `tool_call`: a completed tool call shows the change.
    `snapshot`: only the look at the folder shows that it changed while the turn ran."""


class RunOption(Struct):
    """An answer that an agent offered with a permission request."""

    id: str
    name: str
    kind: str


class RunPermission(Struct, kw_only=True):
    """A permission request of the agent, or a file or terminal request, and the decision."""

    title: str
    kind: str
    action: Literal["allow", "deny", "cancelled"]
    decided_by: str
    rule: str | None = None
    tool_call_id: str | None = None
    option_id: str | None = None
    option_kind: str | None = None
    command: str | None = None
    """The command line it is about."""
    paths: list[str] = []
    """The files it is about."""
    options: list[RunOption] = []
    """What the agent offered; empty for a file or terminal request, which has no options."""
    project_code: list[str] = []
    """Code of the project that the command runs, which rules about commands do not see, and no user was asked."""
    count: int = 1
    """How often exactly this was decided in a row."""


class RunViolation(Struct, kw_only=True):
    """Something that the agent did although a rule denies it, or a change of a protected file without a permission."""

    title: str
    kind: str
    rule: str | None
    """Null for a protected file, and for one outside a worktree, which no rule has to name."""
    decided_by: str
    """The rule and where it is written; `protected file` for a protected file; `worktree` for one outside it."""
    tool_call_id: str | None
    paths: list[str] = []
    command: str | None = None
    """The command that dragoman ran for the agent and that changed a protected file."""
    kept: str | None = None
    """The file with the old content of the protected file, or with the new content if there was none before."""
    is_restored: bool = False
    """Whether the protected file was put back."""


class RunUnjudged(Struct, kw_only=True):
    """Something that the agent did, of which it cannot be seen whether a rule denies it."""

    title: str
    kind: str
    rule: str
    """The deny that may concern it."""
    decided_by: str
    """That rule and where it is written."""
    why: str
    """Why it cannot be seen."""
    tool_call_id: str


class Refused(Struct):
    """What a sandbox kept from a command."""

    kind: Literal["network", "socket", "write", "read"]
    subject: str


class RunCommand(Struct, kw_only=True):
    """A command that dragoman ran for the agent, and where."""

    terminal_id: str
    command: str
    sandbox: str | None
    """The sandbox it ran in; null for outside."""
    exit_code: int | None
    signal: str | None = None
    refused: list[Refused] = []
    """What the sandbox kept from it, as far as it is known."""
    hint: str | None = None
    """How to run it outside."""


class RunSandbox(Struct, kw_only=True):
    """The sandbox of a run."""

    mode: Literal["off", "auto", "require"]
    backend: str | None
    """The one in force for commands; null for none."""
    promise: str | None = None
    """What it stops and what it does not stop."""
    reason: str | None = None
    """Why there is none although one was wanted."""
    agent: str | None = None
    """The one that the agent itself runs in; null if it runs outside."""
    agent_state: list[str] = []
    """Folders of the agent's state, which it may write."""


class LeftOut(Struct):
    """A changed file that is not in a patch."""

    path: str
    reason: str


class RunPatch(Struct):
    """The patch that `--patch` wrote."""

    file: str
    files: list[str]
    """The files that it changes."""
    left_out: list[LeftOut]


class RunRetry(Struct):
    """A try that failed and was repeated (`--retries`)."""

    kind: ErrorKind
    message: str
    waited_ms: int


class RunDurations(Struct, kw_only=True):
    """How long the steps of the run took, in milliseconds; null for a step that was not reached."""

    start_ms: int | None
    """Until the agent had answered `initialize`."""
    session_ms: int | None
    """Until the session was open and set up."""
    turn_ms: int | None
    """Until the agent had answered the prompt."""


class TreeChangeResult(Struct, kw_only=True):
    """A path that differs from before the turn."""

    path: str
    kind: Literal["created", "modified", "deleted", "renamed", "mode", "type"]
    """`mode`: only its permissions changed. `type`: for example a file that became a folder."""
    by: Literal["agent", "turn"]
    """`agent`: dragoman wrote it for the agent, or a tool call shows this change. `turn`: it changed while the turn
    ran, by a command, a formatter, another program or the agent itself."""
    old_path: str | None = None
    """The path before, of a renamed file."""
    is_folder: bool = False
    lines_added: int | None = None
    """Null for what is not text."""
    lines_removed: int | None = None
    problem: str | None = None
    """Why the state before cannot be given back; null if it can."""


class TreeChanges(Struct, kw_only=True):
    """What changed in the folders of the session while the turn ran, by any program."""

    is_complete: bool
    """False if a folder is too large or too private to be followed as a whole: then only files are here that the agent
    named."""
    reasons: list[str]
    """Why it is not complete, and what could not be kept."""
    paths: list[TreeChangeResult]
    overlaps: list[str]
    """Other sessions that ran in the same folder at the same time; their changes cannot be separated from these."""
    changed_before: list[str]
    """Paths that you or others changed between the last turn in this folder and this one."""


class RunResult(Struct, kw_only=True):
    """The result of one run of `dragoman exec`."""

    schema: Literal["dragoman.exec.result/1"] = "dragoman.exec.result/1"
    exit_code: int
    error: Error | None
    text: str
    """The agent's text after its last tool call, or before it if none came after."""
    messages: list[str]
    """All text of the agent, message by message."""
    lost_characters: int
    """How much of the agent's text is not here because it was too long; `text` then ends with a notice."""
    stop_reason: str | None
    """Why the agent ended the turn; null if it did not, or answered only after it was asked to stop."""
    session_id: str | None
    agent: RunAgent | None
    scripted: bool
    """True if a script was played: no part of this result comes from a model."""
    usage: RunUsage | None
    tool_calls: list[ToolCall]
    files_changed: list[FileChange]
    permissions: list[RunPermission]
    duration_ms: int
    dangerously_allow_all: bool = False
    """True if everything that no rule denied was allowed, protected files included."""
    violations: list[RunViolation] = []
    """What the agent did although a rule denies it, as far as its tool calls show it, and changed protected files."""
    unjudged: list[RunUnjudged] = []
    """What the agent did without asking, of which it cannot be seen whether a rule denies it."""
    project_code: list[str] = []
    """Files and tools of the project that ran because of an allow that does not name them, and no user was asked: rules
    that deny commands, or want them asked about, do not see what these do."""
    sandbox: RunSandbox | None = None
    commands: list[RunCommand] = []
    """The commands that dragoman ran for the agent, in the order of their ends."""
    durations: RunDurations | None = None
    retries: list[RunRetry] = []
    """Tries that failed before this one; everything else is about the last try."""
    patch: RunPatch | None = None
    """Null without `--patch`."""
    changes: TreeChanges | None = None
    """What changed in the folders of the session; null with `--no-snapshots`, and if it is not known."""
    kept_seconds: int | None = None
    """With `--session`: for how long after this prompt the session can be continued, because its agent cannot bring it
    back when it is started again; null if it can, and without `--session`."""

    @classmethod
    def nothing(cls) -> RunResult:
        """Return the result of a run of which nothing is known yet."""
        return cls(
            exit_code=0,
            error=None,
            text="",
            messages=[],
            lost_characters=0,
            stop_reason=None,
            session_id=None,
            agent=None,
            scripted=False,
            usage=None,
            tool_calls=[],
            files_changed=[],
            permissions=[],
            duration_ms=0,
        )


def final_text(state: SessionState, turn: TurnState) -> str:
    """Return the final answer, without the text that came before it.

    Pieces of one answer separated only by thoughts belong together; messages with their own ids are paragraphs.
    """
    texts = dict(zip(map(id, turn.messages), turn.texts, strict=True))
    items: list[object] = list(state.timeline[turn.start : turn.end])
    here = set(map(id, items))
    # A message may continue one of the history: some agents restart their numbering in each process.
    items = [message for message in turn.messages if id(message) not in here] + items
    answer: list[tuple[Message, str]] = []
    is_closed = False
    for item in items:
        if isinstance(item, ToolCallState):
            is_closed = True
        elif texts.get(id(item), "").strip():
            if is_closed:
                answer, is_closed = [], False
            answer.append((item, texts[id(item)]))  # type: ignore[arg-type]  # only messages are in `texts`
    text = ""
    for message, piece in answer:
        text += f"{chr(10) * 2 if text and message.message_id else ''}{piece}"
    return text


def cut_notice(turn: TurnState) -> str:
    """Return the sentence that ends a text which was too long to be kept; empty for one that is complete."""
    lost = turn.lost_characters
    return f"\n\n[cut by dragoman: {lost} more characters were not kept]" if lost else ""


def usage(state: SessionState, tokens: v1.Usage | None, own: Mapping[str, Any] = {}) -> RunUsage | None:
    """Return what the agent reported.

    Args:
        tokens: the usage in the answer of the prompt, which is not stable.
        own: the usage in the `_meta` of the built-in agent's answer, which replaces it.
    """
    context, cost = state.usage, state.cost
    if tokens is None and context is None and cost is None and not own:
        return None
    found = RunUsage()
    for name in ("input", "output", "total", "thought", "cached_read", "cached_write"):
        value = UNSET if tokens is None else getattr(tokens, f"{name}_tokens")
        if value is UNSET:
            value = own.get(f"{_camel(name)}Tokens")
        setattr(found, f"{name}_tokens", value if isinstance(value, int) else None)
    if context is not None:
        found.context_used, found.context_size = context.used, context.size
    if cost is not None:
        found.cost = Cost(cost.amount, cost.currency)
    # A call next to the turn, such as the one that finds a title, is in no usage_update.
    match own.get("sessionCost"):
        case {"amount": float() | int() as amount, "currency": str(currency)}:
            found.cost = Cost(amount, currency)
    return found


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def files_changed(changes: Iterable[Change], state: SessionState, turn: TurnState | None) -> list[FileChange]:
    """Return the files dragoman wrote and those completed tool calls show as a diff, sorted by path."""
    found: dict[str, FileChange] = {}
    for change in changes:
        what: Any = "created" if change.before is None else "deleted" if change.after is None else "modified"
        known = found.setdefault(change.path, FileChange(path=change.path, change=what, seen_by=["workspace"]))
        if what == "deleted":  # one file may have several changes, if another program changed it in between
            known.change = what
    for path, is_new in _diffs(state, turn):
        what = "created" if is_new else "modified"
        known = found.setdefault(path, FileChange(path=path, change=what, seen_by=[]))
        if "tool_call" not in known.seen_by:
            known.seen_by.append("tool_call")
    return [found[path] for path in sorted(found)]


def with_seen(known: list[FileChange], changes: TreeChanges | None) -> list[FileChange]:
    """Return the changed files with those that only the folders show, sorted by path."""
    if changes is None:
        return known
    found = {file.path: file for file in known}
    names = {os.path.realpath(path) for path in found}
    for change in changes.paths:
        if change.is_folder:
            continue
        pairs = [(change.path, change.kind if change.kind in ("created", "deleted") else "modified")]
        if change.old_path is not None:
            pairs = [(change.path, "created"), (change.old_path, "deleted")]
        for path, kind in pairs:
            if path not in found and path not in names:
                found[path] = FileChange(path=path, change=kind, seen_by=["snapshot"])
    return [found[path] for path in sorted(found)]


def _diffs(state: SessionState, turn: TurnState | None) -> Iterable[tuple[str, bool]]:
    items: Sequence[object] = () if turn is None else state.timeline[turn.start : turn.end]
    for item in items:
        if isinstance(item, ToolCallState) and item.status == "completed":
            for content in item.content:
                if isinstance(content, v1.Diff) and content.old_text != content.new_text:
                    yield content.path, content.old_text is UNSET or content.old_text is None


def permission(decision: Decision) -> RunPermission:
    return RunPermission(
        title=decision.title,
        kind=decision.kind,
        action=decision.action,
        decided_by=decision.decided_by,
        rule=decision.rule,
        tool_call_id=decision.tool_call_id,
        option_id=decision.option_id,
        option_kind=decision.option_kind,
        command=decision.command,
        paths=list(decision.paths),
        options=[RunOption(option.id, option.label, option.kind) for option in decision.offered],
        project_code=list(decision.project_code),
    )


def project_code(decided: Iterable[RunPermission]) -> list[str]:
    """Return the code of the project that was permitted to run without a question, each once."""
    return list(dict.fromkeys(name for permission in decided for name in permission.project_code))


def permissions(decided: Iterable[RunPermission]) -> list[RunPermission]:
    """Return the decisions with those that repeat the one before counted instead of listed."""
    listed: list[RunPermission] = []
    for permission in decided:
        if listed and structs.replace(listed[-1], count=1) == permission:
            listed[-1].count += 1
        else:
            listed.append(permission)
    return listed


def finished_command(command: FinishedCommand, hint: str | None) -> RunCommand:
    return RunCommand(
        terminal_id=command.terminal_id,
        command=command.command,
        sandbox=command.sandbox,
        exit_code=command.exit_code,
        signal=command.signal,
        refused=[Refused(denial.kind, denial.subject) for denial in command.denials],
        hint=hint,
    )


def schema_of(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of a result or of an event, under its published names."""
    from msgspec import json

    text = json.encode(json.schema(kind)).decode()
    for name, published in _PUBLISHED.items():
        text = text.replace(f'"{name}"', f'"{published}"').replace(f'/{name}"', f'/{published}"')
    schema: dict[str, Any] = json.decode(text)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema

"""What a tool is: typed arguments, what it asks leave for, its work, and what it leaves behind.

Owns the shapes between loop and tools. Tools reach files, commands and people through `ToolAccess` only, so each works
the same on the client's files and on the disk. Does not depend on ACP types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from dragoman.errors import DragomanError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from dragoman.policy import Request, Verdict

Kind: TypeAlias = Literal[
    "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"
]


class ToolError(DragomanError):
    """The tool could not do it; the message is what the model reads, so it says what to do instead."""


class Location(Struct, frozen=True):
    """A file, and perhaps a line of it, that a call is about."""

    path: str
    line: int | UnsetType = UNSET


class FileDiff(Struct, frozen=True):
    """A file as it was (None: there was none) and as it is."""

    path: str
    old: str | None
    new: str


class Preview(Struct, frozen=True):
    """What can be shown of a call before it runs, also while its arguments still stream in."""

    title: str
    locations: tuple[Location, ...] = ()
    diffs: tuple[FileDiff, ...] = ()


class ToolOutput(Struct, frozen=True, omit_defaults=True):
    """What a call gave. This struct, as JSON, is the `output` of the chunk that ends the call.

    `text` is what the model reads; the rest is for the person who watches.
    """

    text: str
    diffs: tuple[FileDiff, ...] = ()
    locations: tuple[Location, ...] = ()
    terminal: str | None = None
    """A terminal of the client's that shows the output live."""
    images: tuple[dict[str, str], ...] = ()
    """`{"data": base64, "media_type": ...}`"""
    resources: tuple[dict[str, Any], ...] = ()
    """`{"uri", "text" | "blob" | "name", "media_type"}`; with neither text nor blob it is a link."""
    exit_code: int | None = None
    is_error: bool = False
    """The tool worked but its outcome is a failure, such as a command that exits with 1."""
    is_truncated: bool = False
    output_path: str | None = None
    """Where the whole output lies when `text` has only a part of it."""


class CommandResult(Struct, frozen=True):
    """How a command ended."""

    text: str
    exit_code: int | None
    signal: str | None = None
    is_truncated: bool = False
    timed_out: bool = False
    terminal: str | None = None


class Choice(Struct, frozen=True):
    """One answer a person can choose."""

    label: str
    description: str = ""


class ToolAccess(Protocol):
    """How tools touch the world: the client's files and terminals where offered, this machine's otherwise."""

    async def read_text(self, path: str) -> str:
        """The whole file, unsaved changes included. Raises: ToolError; FileNotFoundError when there is none."""
        ...

    async def write_text(self, path: str, text: str) -> None:
        """Raises: ToolError."""
        ...

    async def run(
        self,
        line: str,
        *,
        cwd: str,
        timeout_seconds: float,
        limit_bytes: int,
        on_start: Callable[[str], Awaitable[None]] | None = None,
        on_output: Callable[[str], Awaitable[None]] | None = None,
    ) -> CommandResult:
        """Runs a shell line. `on_start` hears the id of a client's terminal, `on_output` the output of a local one."""
        ...

    async def ask(
        self, tool_call_id: str, question: str, choices: Sequence[Choice], *, is_multiple: bool = False
    ) -> list[str] | None:
        """A person's answer; None when they declined. Raises: ToolError when nobody can be asked."""
        ...


class ToolContext(Protocol):
    """One call's surroundings."""

    session_id: str
    tool_call_id: str
    cwd: str
    roots: tuple[str, ...]
    access: ToolAccess
    overflow_dir: str
    """Where output too long for the model goes; made when first needed."""
    memory: dict[str, Any]
    """What tools of this session remember between calls, such as the to-do list or which files were read."""
    trace: Mapping[str, str]
    """Trace ids of whoever asked, for requests to others."""

    async def progress(self, output: ToolOutput) -> None:
        """Shows what there is so far; each replaces the last."""
        ...

    async def data(self, name: str, data: Any, id: str | None = None) -> None:
        """Sends a `data-NAME` chunk, such as the plan."""
        ...

    def verdict(self, request: Request) -> Verdict:
        """What the rules say about something a tool comes upon while it works, such as a redirect; nobody is asked."""
        ...


class Tool(Protocol):
    """A tool. `requests` says what it needs leave for; an empty answer needs none.

    `arguments` is the type its input decodes to; its JSON schema is what the model is told, unless the tool has a
    `schema` of its own.
    """

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def kind(self) -> Kind: ...

    @property
    def arguments(self) -> type[Any]: ...

    def preview(self, arguments: dict[str, Any], cwd: str) -> Preview:
        """Title, locations and diff of a call from arguments that may be incomplete. Cheap, touches nothing."""
        ...

    def requests(self, arguments: Any, context: ToolContext) -> tuple[Request, ...]: ...

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutput: ...

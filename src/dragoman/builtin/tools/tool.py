"""The interface of tools: typed arguments, the permissions a call needs, its work and its output.

Owns the shapes between the loop and the tools. Tools reach files, commands and the user through `ToolAccess` only, so
each works the same on the client's files and on the disk. Does not depend on ACP types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from dragoman.builtin.placement import OUTSIDE, Placement
from dragoman.errors import DragomanError
from dragoman.uistream.display import FileDiff, Kind, Location, ToolOutput

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from dragoman.builtin.mode_switch import ModeSwitch
    from dragoman.policy import Request, Verdict
    from dragoman.policy.decide import Decision, Option
    from dragoman.process.sandbox import Denial, ProtectedChange

__all__ = [
    "AnswerChoice",
    "CommandResult",
    "FileDiff",
    "Kind",
    "Location",
    "NoFormError",
    "Preview",
    "RunningCommand",
    "Tool",
    "ToolAccess",
    "ToolContext",
    "ToolError",
    "ToolOutput",
]


class ToolError(DragomanError):
    """The tool could not do its work. The model reads the message, so it says what to do instead."""


class NoFormError(ToolError):
    """The client cannot show a form, so that a question has to be asked in words."""


class QuestionCancelled(ToolError):
    """The user cancelled a question, which is neither an answer nor a refusal to give one."""


class Preview(Struct, frozen=True):
    """What is shown of a call before it runs, also while its arguments still stream in."""

    title: str
    locations: tuple[Location, ...] = ()
    diffs: tuple[FileDiff, ...] = ()
    mcp: tuple[str, str] | None = None
    """The MCP server and its tool."""


class CommandResult(Struct, frozen=True):
    """How a command ended."""

    text: str
    exit_code: int | None
    signal: str | None = None
    is_truncated: bool = False
    timed_out: bool = False
    terminal: str | None = None
    sandbox: str | None = None
    """The backend of the sandbox it ran in; None if it ran outside."""
    denials: tuple[Denial, ...] = ()
    """What the sandbox kept from it."""
    changes: tuple[ProtectedChange, ...] = ()
    """Protected files that it changed, and that were not permitted."""


class RunningCommand(Protocol):
    """A command in the background."""

    async def wait(self) -> CommandResult:
        """Return how it ended, when everything it started is gone. Waiting in several tasks is possible."""
        ...

    async def stop(self) -> None:
        """End it with everything it started."""
        ...


class AnswerChoice(Struct, frozen=True):
    """One answer the user can choose."""

    label: str
    description: str = ""


class ToolAccess(Protocol):
    """File, command and question access for tools: through the client if it offers the service, otherwise local."""

    async def read_text(self, path: str) -> str:
        """Return the whole file with unsaved changes. Raises: ToolError; FileNotFoundError if there is none."""
        ...

    async def read_bytes(self, path: str) -> bytes:
        """Return a file that need not be text, from the disk. Raises: ToolError; FileNotFoundError if there is none."""
        ...

    async def write_text(self, path: str, text: str) -> None:
        """Write the whole file. Raises: ToolError."""
        ...

    async def delete(self, path: str) -> None:
        """Delete a file. Raises: ToolError."""
        ...

    async def run(
        self,
        line: str,
        *,
        cwd: str,
        timeout_seconds: float,
        limit_bytes: int,
        placement: Placement = OUTSIDE,
        local_line: str | None = None,
        on_start: Callable[[str], Awaitable[None]] | None = None,
        on_output: Callable[[str], Awaitable[None]] | None = None,
    ) -> CommandResult:
        """Run a shell line.

        Args:
            placement: where it runs; only a command that runs outside can use the client's terminal.
            local_line: runs instead if the command runs locally. A client runs the line that was permitted, as it is.
            on_start: receives the id of the client's terminal, if the command runs in one.
            on_output: receives the output so far, if the command runs locally.

        Raises: ToolError.
        """
        ...

    async def start(
        self,
        line: str,
        *,
        cwd: str,
        timeout_seconds: float,
        placement: Placement = OUTSIDE,
        on_output: Callable[[bytes], None],
    ) -> RunningCommand:
        """Start a shell line that may outlive the turn, always locally. Raises: ToolError."""
        ...

    async def ask(
        self, question: str, choices: Sequence[AnswerChoice], *, is_multiple: bool = False
    ) -> list[str] | None:
        """Return the user's answer; None if they declined.

        Raises:
            NoFormError: the client cannot show a form.
            ToolError: no user can be asked.
        """
        ...

    async def edit_text(self, question: str, text: str) -> str | None:
        """Return a text as the user changed it; None if they declined. Raises: as `ask` does."""
        ...


class ToolContext(Protocol):
    """What a tool call works with; `TurnContext` implements it."""

    session_id: str
    tool_call_id: str
    cwd: str
    roots: tuple[str, ...]
    access: ToolAccess
    overflow_dir: str
    """Folder for output that is too long for the model; created when first needed."""
    memory: dict[str, Any]
    """What the session's tools remember between calls, such as the to-do list or which files were read."""
    trace: Mapping[str, str]
    """Trace ids of the prompt, for requests to other programs."""
    modes: ModeSwitch | None
    """The session's mode; None where no user can choose another."""

    @property
    def model_name(self) -> str:
        """The model that reads the output, as `PROVIDER:MODEL`."""
        ...

    async def progress(self, output: ToolOutput) -> None:
        """Show the output so far; each call replaces the last."""
        ...

    async def data(self, name: str, data: Any, id: str | None = None) -> None:
        """Emit a `data-NAME` chunk, such as the plan."""
        ...

    def ask_in_words(self, text: str) -> None:
        """Ask the user with a message at the end of the turn. The turn ends after this step; a prompt answers."""
        ...

    async def choose(self, options: Sequence[Option]) -> str | None:
        """Ask the user, by a permission request about this call, and return the id of the answer; None without one."""
        ...

    @property
    def placement(self) -> Placement:
        """Where the command of this call runs, as permission was given for it."""
        return OUTSIDE

    async def decide_outside(self, request: Request) -> Decision:
        """Ask the user whether a command that failed in the sandbox may run outside."""
        ...

    def verdict(self, request: Request) -> Verdict:
        """Judge something a tool meets while it runs, such as a redirect. The user is not asked."""
        ...


class Tool(Protocol):
    """A tool. `arguments` is the type of its input; the model is given its JSON schema, or the tool's own `schema`."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def kind(self) -> Kind: ...

    @property
    def arguments(self) -> type[Any]: ...

    @property
    def schema(self) -> dict[str, Any] | None:
        """JSON schema of the arguments; None if it follows from their type."""
        return None

    def preview(self, arguments: dict[str, Any], cwd: str) -> Preview:
        """Return title, locations and diffs of a call, from arguments that may be incomplete. Cheap, reads no file."""
        ...

    async def check(self, arguments: Any, context: ToolContext) -> Preview | None:
        """Look whether the call can do its work, before permission is asked. Returns what it would change, if known.

        Raises: ToolError if it cannot; then the user is not asked.
        """
        return None

    def requests(self, arguments: Any, context: ToolContext) -> tuple[Request, ...]:
        """Return the permissions this call needs; an empty tuple needs none."""
        ...

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutput: ...

"""Answers what the agent asks of its client: permission, files and terminals.

Owns the table from method to service. Decisions are in `permissions.py`; what happened is reported to the watch, which
records it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.proxy.guard.files import GuardedFiles
from dragoman.proxy.guard.permissions import EditorAsker, GuardPermissions
from dragoman.proxy.guard.reading import unambiguous_params
from dragoman.proxy.guard.terminals import GuardedTerminals
from dragoman.schema import CLIENT_METHODS, decode, encode, v1

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from msgspec import Raw

    from dragoman.proxy.guard.permissions import AsksEditor
    from dragoman.proxy.guard.plan import GuardPlan
    from dragoman.proxy.guard.session import GuardedSession
    from dragoman.proxy.guard.sessions import GuardedSessions
    from dragoman.proxy.guard.watch import SessionWatch

SERVED: Final = frozenset(
    {
        "session/request_permission",
        *("fs/read_text_file", "fs/write_text_file"),
        *("terminal/create", "terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release"),
    }
)
"""The methods that the guard answers itself."""
_NO_PARAMS: Final = msgspec.Raw(b"{}")
_CANCELLED: Final = v1.RequestPermissionResponse(v1.CancelledPermissionOutcome())


class _Named(msgspec.Struct):
    session: str = msgspec.field(name="sessionId")


class _Terminal(_Named):
    terminal: str = msgspec.field(name="terminalId")


class GuardServices:
    """The services of the guard for its agent."""

    def __init__(self, plan: GuardPlan, sessions: GuardedSessions, watch: SessionWatch, editor: AsksEditor) -> None:
        self._sessions = sessions
        self._watch = watch
        self.confinement = confinement = plan.make_confinement(watch, plan.tripwires)
        self.tripwires = plan.tripwires
        self._conduct = plan.conduct
        self._asker = EditorAsker(editor) if plan.asks_editor else None
        self.permissions = GuardPermissions(
            plan.found,
            agent=plan.agent,
            asker=plan.asker if self._asker is None else self._asker,
            on_decision=watch.decided,
            confines=lambda: confinement.sandbox is not None and plan.runs_in_terminals,
            is_built_in=plan.is_built_in,
        )
        self.files = GuardedFiles(
            permissions=self.permissions,
            editor=editor,
            missing=plan.missing_file,
            check_limit=watch.check_file,
            on_access=watch.accessed,
        )
        self.terminals = GuardedTerminals(
            permissions=self.permissions, editor=editor, confinement=confinement, on_started=watch.started
        )
        watch.permissions, watch.terminals = self.permissions, self.terminals
        self._handlers: dict[str, Callable[[Any, Raw, GuardedSession], Awaitable[bytes]]] = {
            "session/request_permission": self._permission,
            "fs/read_text_file": self._read,
            "fs/write_text_file": self._write,
            "terminal/create": self._create,
            "terminal/output": self._output,
            "terminal/wait_for_exit": self._wait,
            "terminal/kill": self._kill,
            "terminal/release": self._release,
        }

    def note_editor(self, capabilities: dict[str, Any]) -> None:
        """Note what the editor offers, as it stated."""
        files = capabilities.get("fs")
        files = files if isinstance(files, dict) else {}
        self.files.editor_reads = files.get("readTextFile") is True
        self.files.editor_writes = files.get("writeTextFile") is True
        self.terminals.is_offered_by_editor = capabilities.get("terminal") is True

    async def answer(self, method: str, params: Raw | None) -> bytes:
        """Carry out a request, and return its encoded result.

        Raises: RequestError or RemoteProtocolError for an error.
        """
        raw = _NO_PARAMS if params is None else params
        read: Any = decode(CLIENT_METHODS[method].params, raw)
        session = await self._sessions.wait_for(read.session_id)
        return await self._handlers[method](read, raw, session)

    def editor_answers(self, method: str) -> bool:
        """Whether the editor is to answer a request of this method, if the rules do not refuse it."""
        match method:
            case "session/request_permission":
                return self._asker is not None
            case "fs/read_text_file":
                return self.files.editor_reads
            case "fs/write_text_file":
                return self.files.editor_writes
        return method == "terminal/create" and not self.terminals.run_here

    def has_session(self, params: Raw | None) -> bool:
        """Whether a request is about a session that is open or being opened by its name."""
        try:
            named = msgspec.json.decode(params or b"", type=_Named)
        except (msgspec.MsgspecError, RecursionError):
            return False
        return self._sessions.find(named.session) is not None

    def editor_terminal(self, method: str, params: Raw | None) -> _Terminal | None:
        """Return what a request is about, if it is about a terminal of the editor, which answers it; else None."""
        if not method.startswith("terminal/") or method == "terminal/create" or params is None:
            return None
        try:
            named = msgspec.json.decode(params, type=_Terminal)
        except msgspec.MsgspecError:
            return None
        session = self._sessions.find(named.session)
        return named if session is not None and session.has_editor_terminal(named.terminal) else None

    def answered(self, method: str, context: Any, result: Raw | None) -> None:
        """Note the editor's answer to a request of the agent that passed."""
        if not isinstance(context, _Terminal) or result is None:
            return
        # A released terminal stays the editor's: what the agent wants to know of it then, the editor refuses.
        if method == "terminal/wait_for_exit":
            try:
                ended = msgspec.json.decode(result, type=dict[str, Any])
            except msgspec.MsgspecError:
                return
            self._watch.command_ended(context.terminal, context.session, ended.get("exitCode"), ended.get("signal"))

    async def close(self) -> None:
        """End all terminals."""
        await self.terminals.close()

    async def _permission(self, request: v1.RequestPermissionRequest, params: Raw, session: GuardedSession) -> bytes:
        session.note_permission(request.tool_call)
        known = session.state.tool_calls.get(request.tool_call.tool_call_id)
        kind = str(request.tool_call.kind or (known.kind if known is not None else "other"))
        session.seen_kinds.add(kind)
        self._conduct.note("asked", kind)
        if self._asker is None:
            outcome = await self.permissions.permission(request, session)
            return encode(_CANCELLED if outcome is None else v1.RequestPermissionResponse(outcome))
        # All that the agent sent: the editor must not see another request than the rules did.
        passed = self._asker.keep(request, unambiguous_params(params))
        try:
            outcome = await self.permissions.permission(request, session)
        finally:
            self._asker.drop(request)
        # The editor's own answer, with what else it holds; if a rule decided, there is none.
        if outcome is None and passed.error is not None:
            raise passed.error
        answer = passed.refusal if outcome is None else passed.selection
        if answer is not None:
            return bytes(answer)
        return encode(_CANCELLED if outcome is None else v1.RequestPermissionResponse(outcome))

    def _note(self, kind: str, session: GuardedSession) -> None:
        session.seen_kinds.add(kind)
        self._conduct.note("delegated", kind)

    async def _read(self, request: v1.ReadTextFileRequest, params: Raw, session: GuardedSession) -> bytes:
        self._note("read", session)
        return await self.files.read(request, session)

    async def _write(self, request: v1.WriteTextFileRequest, params: Raw, session: GuardedSession) -> bytes:
        self._note("edit", session)
        return await self.files.write(request, session)

    async def _create(self, request: v1.CreateTerminalRequest, params: Raw, session: GuardedSession) -> bytes:
        self._note("execute", session)
        return await self.terminals.create(request, session)

    async def _output(self, request: v1.TerminalOutputRequest, params: Raw, session: GuardedSession) -> bytes:
        return encode(await self.terminals.local.output(request, session))

    async def _wait(self, request: v1.WaitForTerminalExitRequest, params: Raw, session: GuardedSession) -> bytes:
        return encode(await self.terminals.local.wait_for_exit(request, session))

    async def _kill(self, request: v1.KillTerminalRequest, params: Raw, session: GuardedSession) -> bytes:
        await self.terminals.local.kill(request, session)
        return encode(v1.KillTerminalResponse())

    async def _release(self, request: v1.ReleaseTerminalRequest, params: Raw, session: GuardedSession) -> bytes:
        await self.terminals.local.release(request, session)
        return encode(v1.ReleaseTerminalResponse())

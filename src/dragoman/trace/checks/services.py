"""Checks of the client's services for the agent: permission, files, terminals, questions to the user.

Owns the open terminals. Whether a service was advertised is checked in `handshake.py`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from dragoman.errors import METHOD_NOT_FOUND
from dragoman.schema import is_advertised, v1
from dragoman.trace.checks.facts import TerminalFacts, if_present
from dragoman.trace.checks.paths import check_path
from dragoman.trace.checks.updates import announce_tool

if TYPE_CHECKING:
    from dragoman.trace.checks.facts import Checks, Facts
    from dragoman.trace.inspect.exchange import DecodedFrame

_TERMINAL_REQUESTS: Final = (
    v1.TerminalOutputRequest,
    v1.WaitForTerminalExitRequest,
    v1.KillTerminalRequest,
    v1.ReleaseTerminalRequest,
)
_SHELL: Final = re.compile(r"\S\s+(&&|\|\|?|[<>]{1,2}|2>&1)\s*\S|;\s*\S|\$\(|`")
_CREDENTIALS: Final = re.compile(r"[A-Za-z][\w+.-]*://[^/?#@]*:[^/?#@]+@")


def _ask_permission(frame: DecodedFrame, facts: Facts) -> None:
    request, session = frame.value, facts.session(frame)
    if not isinstance(request, v1.RequestPermissionRequest):
        return
    ids = [option.option_id for option in request.options]
    if len(ids) != len(set(ids)):
        facts.report(254, frame, "two options have the same optionId")
    if session is not None:
        announce_tool(frame, facts, session, request.tool_call, is_permission=True)
        turn = session.turn
        if turn is not None and turn.cancelled_at is not None:
            facts.cancelled_permissions[frame] = (258, turn.cancelled_at)


def _answer_permission(frame: DecodedFrame, facts: Facts) -> None:
    asked, result = frame.request, frame.value
    cancelled = facts.cancelled_permissions.pop(asked, None) if asked is not None else None
    session = facts.session(frame)
    if cancelled is not None and session is not None and session.turn is not None:
        # A turn that waits for this cannot have ended by itself before the cancel, which was sent earlier.
        session.turn.saw_cancel = True
    if frame.part == "error":
        if frame.error_code == METHOD_NOT_FOUND:
            facts.report(259, frame, "every client implements session/request_permission")
        return
    outcome = result.outcome if isinstance(result, v1.RequestPermissionResponse) else None
    if not isinstance(outcome, v1.SelectedPermissionOutcome) or asked is None:
        return
    if isinstance(asked.value, v1.RequestPermissionRequest):
        _check_offered(frame, facts, asked.value, outcome.option_id)
    if cancelled is not None:
        facts.report(cancelled[0], frame, "the turn was cancelled, so the outcome is cancelled and not selected")


def _check_offered(frame: DecodedFrame, facts: Facts, request: v1.RequestPermissionRequest, chosen: str) -> None:
    if all(option.option_id != chosen for option in request.options):
        facts.report(256, frame, f"{chosen!r} is not one of the offered options")


def _ask_file(frame: DecodedFrame, facts: Facts) -> None:
    request = frame.value
    if request is None:
        return
    check_path(frame, facts, 273, "path", request.path)
    if isinstance(request, v1.ReadTextFileRequest) and request.line == 0:
        facts.report(274, frame, "line is 0; lines are counted from 1")


def _ask_create(frame: DecodedFrame, facts: Facts) -> None:
    request = frame.value
    if not isinstance(request, v1.CreateTerminalRequest):
        return
    if (cwd := if_present(request.cwd)) is not None:
        check_path(frame, facts, 283, "cwd", cwd)
    if not if_present(request.args) and _SHELL.search(request.command):
        # A program could have this name, but none has; the schema does not forbid it.
        facts.report(284, frame, "the command is a shell line; it must be a program, its arguments go to args", "lc")


def _answer_create(frame: DecodedFrame, facts: Facts) -> None:
    result, asked = frame.value, frame.request
    if isinstance(result, v1.CreateTerminalResponse) and asked is not None:
        limit = if_present(asked.value.output_byte_limit) if isinstance(asked.value, v1.CreateTerminalRequest) else None
        facts.terminals[result.terminal_id] = TerminalFacts(asked, limit)


def _terminal(request: DecodedFrame | None, facts: Facts) -> TerminalFacts | None:
    """Return the terminal that a request is about, if it is known."""
    value = request.value if request is not None else None
    return facts.terminals.get(value.terminal_id) if isinstance(value, _TERMINAL_REQUESTS) else None


def _ask_terminal(frame: DecodedFrame, facts: Facts) -> None:
    terminal = _terminal(frame, facts)
    if terminal is not None and terminal.released_by is not None:
        facts.report(294, frame, f"the terminal was released by message {terminal.released_by}", "NOTE")
        facts.released.add(frame)
    elif terminal is not None and frame.method == "terminal/release":
        terminal.released_by = frame.number


def _answer_terminal(frame: DecodedFrame, facts: Facts) -> None:
    if frame.request in facts.released:
        facts.report(294, frame, f"{frame.method} of a terminal that was released is answered with success")


def _answer_output(frame: DecodedFrame, facts: Facts) -> None:
    _answer_terminal(frame, facts)
    result, terminal = frame.value, _terminal(frame.request, facts)
    if terminal is None or terminal.limit_bytes is None or not isinstance(result, v1.TerminalOutputResponse):
        return
    size_bytes = len(result.output.encode(errors="replace"))
    if size_bytes > terminal.limit_bytes and not facts.is_redacted:
        facts.report(286, frame, f"{size_bytes} bytes of output, where the limit is {terminal.limit_bytes}")


def _ask_elicitation(frame: DecodedFrame, facts: Facts) -> None:
    request = frame.value
    mode = "form" if isinstance(request, v1.ElicitationFormMode) else "url"
    if not isinstance(request, (v1.ElicitationFormMode, v1.ElicitationUrlMode)):
        return
    is_offered = facts.client is not None and is_advertised(facts.client, "elicitation")  # else that was reported
    if is_offered and not is_advertised(facts.client, f"elicitation.{mode}"):
        facts.report(298, frame, f"mode {mode} needs elicitation.{mode}, which was not advertised")
    if if_present(request.session_id) is not None and if_present(request.request_id) is not None:
        facts.report(302, frame, "it has both sessionId and requestId; only one is allowed")
    if isinstance(request, v1.ElicitationUrlMode):
        _check_url(frame, facts, request)


def _check_url(frame: DecodedFrame, facts: Facts, request: v1.ElicitationUrlMode) -> None:
    if _CREDENTIALS.match(request.url):
        facts.report(320, frame, "the URL carries a user name and a password")
    for other in facts.exchange.open["a2c"].values():
        is_page = isinstance(other.value, v1.ElicitationUrlMode)
        if other is not frame and is_page and other.value.elicitation_id == request.elicitation_id:
            facts.report(316, frame, f"the elicitationId is that of message {other.number}, which is not answered")


def check_left(facts: Facts, *, agent_left_first: bool) -> None:
    """Report, at the end of a recording, terminals that the agent did not release."""
    for name, terminal in facts.terminals.items():
        if terminal.released_by is None:
            # It may be released after the end of the recording, or after the client has left.
            level = "" if agent_left_first else "NOTE"
            facts.report(292, terminal.created, f"the terminal {name!r} was not released", level)


CHECKS: Checks = {
    ("session/request_permission", "params"): _ask_permission,
    ("session/request_permission", "result"): _answer_permission,
    ("session/request_permission", "error"): _answer_permission,
    ("fs/read_text_file", "params"): _ask_file,
    ("fs/write_text_file", "params"): _ask_file,
    ("terminal/create", "params"): _ask_create,
    ("terminal/create", "result"): _answer_create,
    ("terminal/output", "params"): _ask_terminal,
    ("terminal/output", "result"): _answer_output,
    ("terminal/wait_for_exit", "params"): _ask_terminal,
    ("terminal/wait_for_exit", "result"): _answer_terminal,
    ("terminal/kill", "params"): _ask_terminal,
    ("terminal/kill", "result"): _answer_terminal,
    ("terminal/release", "params"): _ask_terminal,
    ("terminal/release", "result"): _answer_terminal,
    ("elicitation/create", "params"): _ask_elicitation,
}

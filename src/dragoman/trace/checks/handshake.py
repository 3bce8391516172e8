"""Checks of the handshake: initialize first, calls only as advertised by both sides, logins.

Owns the capabilities of both sides as `initialize` carried them. Where they are not known, nothing is reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.errors import INVALID_REQUEST, METHOD_NOT_FOUND
from dragoman.schema import AGENT_METHODS, PROTOCOL_VERSION, Unknown, is_advertised, v1
from dragoman.trace.checks.facts import if_present

if TYPE_CHECKING:
    from dragoman.trace.checks.facts import Checks, Facts
    from dragoman.trace.inspect.exchange import DecodedFrame

OMITTED: Final = 49  # an omitted capability means unsupported
GATES: Final = {
    "logout": 79,
    "session/load": 104,
    "session/resume": 110,
    "session/close": 114,
    "session/list": 122,
    "session/delete": 135,
    "fs/read_text_file": 272,
    "fs/write_text_file": 272,
    "terminal/create": 282,
    "terminal/output": 282,
    "terminal/wait_for_exit": 282,
    "terminal/kill": 282,
    "terminal/release": 282,
    "elicitation/create": 298,
    "elicitation/complete": 298,
}


def check_order(frame: DecodedFrame, facts: Facts) -> None:
    """Report calls of the client before and during initialize (rules 33, 34), and wrong responses to them (35)."""
    if frame.dir == "a2c":
        if frame.part in ("result", "error") and frame.request in facts.too_early:
            facts.too_early.discard(frame.request)
            if frame.error_code != INVALID_REQUEST:
                facts.report(35, frame, f"{frame.method} came before initialize, yet the answer is not -32600")
        return
    is_call = frame.kind == "request" or (frame.kind == "notification" and frame.method in AGENT_METHODS)
    if not is_call or frame.method == "initialize":
        return
    if facts.initialize is None:
        if facts.sees_start:
            _report_first(frame, facts)
        elif frame.kind == "request":
            facts.before_initialize.append(frame)
    elif not facts.is_initialized and frame.method in AGENT_METHODS:
        # The agent reads in order and has initialized when it reads this call, so any response is right.
        facts.report(34, frame, f"{frame.method} was sent before initialize was answered")


def _report_first(frame: DecodedFrame, facts: Facts) -> None:
    facts.report(33, frame, f"{frame.method} was sent before initialize")
    facts.too_early.add(frame)


def check_gate(frame: DecodedFrame, facts: Facts) -> None:
    """Report a call of a method that was not advertised, and a side that answers it all the same (61)."""
    row = frame.row
    if frame.part == "params" and row is not None and row.gate is not None:
        capabilities = facts.agent if frame.dir == "c2a" else facts.client
        if capabilities is not None and not is_advertised(capabilities, row.gate):
            rule = GATES.get(row.name, OMITTED)
            facts.report(rule, frame, f"{row.name} needs the capability {row.gate}, which was not advertised")
            facts.ungated.add(frame)
    elif frame.request in facts.ungated:
        facts.ungated.discard(frame.request)
        if frame.error_code != METHOD_NOT_FOUND:
            facts.report(61, frame, f"{frame.method} was not advertised, yet the answer is not -32601")


def asks_other_version(frame: DecodedFrame) -> bool:
    """Whether this requests a version that these checks do not know, whose messages may have another form."""
    version = frame.plain.get("protocolVersion") if type(frame.plain) is dict else None
    is_initialize = frame.method == "initialize" and frame.part == "params"
    return is_initialize and type(version) is int and version != PROTOCOL_VERSION


def _ask_initialize(frame: DecodedFrame, facts: Facts) -> None:
    is_first = facts.initialize is None
    facts.initialize = frame
    if is_first and not facts.sees_start and not facts.saw_unasked:
        # Nothing shows traffic before the recording, so what came before this came too early.
        for earlier in facts.before_initialize:
            _report_first(earlier, facts)
    facts.before_initialize.clear()
    facts.sees_start = True
    request = frame.value
    if not isinstance(request, v1.InitializeRequest):
        return
    if asks_other_version(frame):
        # Another version may have its capabilities elsewhere; absent ones then mean nothing.
        facts.client = if_present(request.client_capabilities)
        return
    facts.client = request.client_capabilities_or_default
    if if_present(request.client_info) is None:
        facts.report(44, frame, "clientInfo is missing")


def _answer_initialize(frame: DecodedFrame, facts: Facts) -> None:
    facts.is_initialized = True
    result = frame.value
    if not isinstance(result, v1.InitializeResponse):
        return
    if result.protocol_version != PROTOCOL_VERSION:
        facts.is_judged = False
        facts.report(40, frame, f"version {result.protocol_version} was agreed on, which is not judged here", "NOTE")
        return
    facts.agent = result.agent_capabilities_or_default
    if if_present(result.agent_info) is None:
        facts.report(45, frame, "agentInfo is missing")
    facts.auth_methods = {}
    for method in result.auth_methods_or_default:
        if isinstance(method, Unknown):
            facts.auth_methods[str(method.raw.get("id"))] = method.tag or "agent"
            continue
        is_terminal = isinstance(method, v1.AuthMethodTerminal)
        facts.auth_methods[method.id] = "terminal" if is_terminal else "agent"
        if is_terminal and facts.client is not None and not is_advertised(facts.client, "auth.terminal"):
            facts.report(69, frame, f"{method.id!r} is a terminal login, and the client has no auth.terminal")


def _refuse_initialize(frame: DecodedFrame, facts: Facts) -> None:
    """Continue without known capabilities."""
    facts.is_initialized = True
    facts.client = facts.agent = None
    asked = frame.request.value if frame.request is not None else None
    if isinstance(asked, v1.InitializeRequest) and asked.protocol_version > 1:
        facts.report(
            39, frame, f"version {asked.protocol_version} was refused instead of answered with another", "NOTE"
        )


def _authenticate(frame: DecodedFrame, facts: Facts) -> None:
    request = frame.value
    if facts.auth_methods is None or not isinstance(request, v1.AuthenticateRequest):
        return
    kind = facts.auth_methods.get(request.method_id)
    if kind is None:
        facts.report(67, frame, f"{request.method_id!r} is not one of the advertised login methods")
    elif kind == "terminal":
        facts.report(68, frame, f"{request.method_id!r} is a terminal login and does not go through authenticate")


CHECKS: Checks = {
    ("initialize", "params"): _ask_initialize,
    ("initialize", "result"): _answer_initialize,
    ("initialize", "error"): _refuse_initialize,
    ("authenticate", "params"): _authenticate,
}

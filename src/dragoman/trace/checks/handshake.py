"""Who may speak when, and of what: initialize first, capabilities both ways, logins.

Owns the capabilities of both sides as `initialize` told them. Where they are not known nothing is held against anyone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.errors import INVALID_REQUEST, METHOD_NOT_FOUND
from dragoman.schema import AGENT_METHODS, PROTOCOL_VERSION, Unknown, is_advertised, v1
from dragoman.trace.checks.link import given

if TYPE_CHECKING:
    from dragoman.trace.checks.link import Checks, Link
    from dragoman.trace.inspect.exchange import Reading

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


def check_order(reading: Reading, link: Link) -> None:
    """Reports calls of the client before and during initialize (rules 33, 34), and the agent's answer to them (35)."""
    if reading.dir == "a2c":
        if reading.part in ("result", "error") and reading.request in link.too_early:
            link.too_early.discard(reading.request)
            if reading.error_code != INVALID_REQUEST:
                link.report(35, reading, f"{reading.method} came before initialize, yet the answer is not -32600")
        return
    is_call = reading.kind == "request" or (reading.kind == "notification" and reading.method in AGENT_METHODS)
    if not is_call or reading.method == "initialize":
        return
    if link.initialize is None:
        if link.sees_start:
            _report_first(reading, link)
        elif reading.kind == "request":
            link.before_initialize.append(reading)
    elif not link.is_initialized and reading.method in AGENT_METHODS:
        # The agent reads in order and has initialized when it comes to this call, so its answer is its own affair.
        link.report(34, reading, f"{reading.method} was sent before initialize was answered")


def _report_first(reading: Reading, link: Link) -> None:
    link.report(33, reading, f"{reading.method} was sent before initialize")
    link.too_early.add(reading)


def check_gate(reading: Reading, link: Link) -> None:
    """Reports a call of a method its server did not advertise, and a server that answers it all the same (61)."""
    row = reading.row
    if reading.part == "params" and row is not None and row.gate is not None:
        capabilities = link.agent if reading.dir == "c2a" else link.client
        if capabilities is not None and not is_advertised(capabilities, row.gate):
            rule = GATES.get(row.name, OMITTED)
            link.report(rule, reading, f"{row.name} needs the capability {row.gate}, which was not advertised")
            link.ungated.add(reading)
    elif reading.request in link.ungated:
        link.ungated.discard(reading.request)
        if reading.error_code != METHOD_NOT_FOUND:
            link.report(61, reading, f"{reading.method} was not advertised, yet the answer is not -32601")


def asks_other_version(reading: Reading) -> bool:
    """Whether this asks for a version these checks do not know, and so may have another form."""
    version = reading.plain.get("protocolVersion") if type(reading.plain) is dict else None
    is_initialize = reading.method == "initialize" and reading.part == "params"
    return is_initialize and type(version) is int and version != PROTOCOL_VERSION


def _ask_initialize(reading: Reading, link: Link) -> None:
    is_first = link.initialize is None
    link.initialize = reading
    if is_first and not link.sees_start and not link.saw_unasked:
        # Nothing hints at traffic before the recording, so what came before this really came too early.
        for earlier in link.before_initialize:
            _report_first(earlier, link)
    link.before_initialize.clear()
    link.sees_start = True
    request = reading.value
    if not isinstance(request, v1.InitializeRequest):
        return
    if asks_other_version(reading):
        # Another version writes its capabilities elsewhere; none in the old place then says nothing.
        link.client = given(request.client_capabilities)
        return
    link.client = request.client_capabilities_or_default
    if given(request.client_info) is None:
        link.report(44, reading, "clientInfo is missing")


def _answer_initialize(reading: Reading, link: Link) -> None:
    link.is_initialized = True
    result = reading.value
    if not isinstance(result, v1.InitializeResponse):
        return
    if result.protocol_version != PROTOCOL_VERSION:
        link.is_judged = False
        link.report(40, reading, f"version {result.protocol_version} was agreed on, which is not judged here", "NOTE")
        return
    link.agent = result.agent_capabilities_or_default
    if given(result.agent_info) is None:
        link.report(45, reading, "agentInfo is missing")
    link.auth_methods = {}
    for method in result.auth_methods_or_default:
        if isinstance(method, Unknown):
            link.auth_methods[str(method.raw.get("id"))] = method.tag or "agent"
            continue
        is_terminal = isinstance(method, v1.AuthMethodTerminal)
        link.auth_methods[method.id] = "terminal" if is_terminal else "agent"
        if is_terminal and link.client is not None and not is_advertised(link.client, "auth.terminal"):
            link.report(69, reading, f"{method.id!r} is a terminal login, and the client has no auth.terminal")


def _refuse_initialize(reading: Reading, link: Link) -> None:
    """The connection goes on without known capabilities."""
    link.is_initialized = True
    link.client = link.agent = None
    asked = reading.request.value if reading.request is not None else None
    if isinstance(asked, v1.InitializeRequest) and asked.protocol_version > 1:
        link.report(
            39, reading, f"version {asked.protocol_version} was refused instead of answered with another", "NOTE"
        )


def _authenticate(reading: Reading, link: Link) -> None:
    request = reading.value
    if link.auth_methods is None or not isinstance(request, v1.AuthenticateRequest):
        return
    kind = link.auth_methods.get(request.method_id)
    if kind is None:
        link.report(67, reading, f"{request.method_id!r} is none of the advertised login methods")
    elif kind == "terminal":
        link.report(68, reading, f"{request.method_id!r} is a terminal login and does not go through authenticate")


CHECKS: Checks = {
    ("initialize", "params"): _ask_initialize,
    ("initialize", "result"): _answer_initialize,
    ("initialize", "error"): _refuse_initialize,
    ("authenticate", "params"): _authenticate,
}

"""Checks of the JSON-RPC envelope: lines that are not messages, ids, responses, error objects.

Checks frames of all methods, and the pairing of requests and responses. Does not depend on single methods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.errors import (
    AUTH_REQUIRED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NOT_FOUND,
    PARSE_ERROR,
    REQUEST_CANCELLED,
    UNSUPPORTED_VERSION,
)
from dragoman.trace.inspect.exchange import OTHER
from dragoman.wire import Malformed

if TYPE_CHECKING:
    from dragoman.trace.checks.facts import Facts
    from dragoman.trace.inspect.exchange import DecodedFrame

KNOWN_CODES: Final = frozenset(
    {
        PARSE_ERROR,
        INVALID_REQUEST,
        METHOD_NOT_FOUND,
        INVALID_PARAMS,
        INTERNAL_ERROR,
        REQUEST_CANCELLED,
        AUTH_REQUIRED,
        NOT_FOUND,
        UNSUPPORTED_VERSION,
    }
)
RESERVED_CODES: Final = range(-32768, -31999)
# Rule 343 asks for one short sentence: three lines of a terminal are more than that in any language.
SHORT_MESSAGE_CHARS: Final = 240

# Methods of drafts that were dropped or are not in the schema any more; real clients and agents still send them.
DRAFT_METHODS: Final = frozenset({"session/set_model"})

NOISE: Final = {"a2c": 6, "c2a": 7}
# How the messages of `wire.envelope` begin -> the rule they are about.
VERDICTS: Final = (
    ("the line is not valid UTF-8", 1),
    ("a batch", 10),
    ("a message is a JSON object", 10),
    ('"jsonrpc"', 19),
    ('"id" must', 20),
    ('"error" must', 23),
    ("a response has exactly one", 22),
    ('a message has "method", or else', 22),
)
# These are our own limits (rule 14): a peer may send more.
LIMITS: Final = ("the line nests", "the line holds more than")


def check_envelope(frame: DecodedFrame, facts: Facts) -> None:
    """Report what is wrong with a frame, whatever its method."""
    match frame.kind:
        case "malformed":
            _check_malformed(frame, facts)
        case "request":
            _check_request(frame, facts)
        case "notification":
            _check_kind(frame, facts)
        case "response":
            _check_response(frame, facts)


def _check_malformed(frame: DecodedFrame, facts: Facts) -> None:
    message = frame.message
    assert isinstance(message, Malformed)
    if message.why.startswith(LIMITS):
        facts.report(14, frame, message.why, "NOTE")
        return
    facts.saw_broken = facts.saw_broken or frame.dir == "a2c"
    rule = next((rule for start, rule in VERDICTS if message.why.startswith(start)), NOISE[frame.dir])
    facts.report(rule, frame, message.why)


def _check_request(frame: DecodedFrame, facts: Facts) -> None:
    if frame.id is None:
        facts.report(21, frame, "a request must not have the id null")
    elif frame.repeats:
        facts.report(25, frame, f"the id {frame.id!r} belongs to a request that is still open", "NOTE")
    _check_kind(frame, facts)


def _check_kind(frame: DecodedFrame, facts: Facts) -> None:
    row = frame.row
    if row is None:
        if not frame.method.startswith("_"):
            _report_unknown(frame, facts)
    elif row.kind != frame.kind and row.name != "mcp/message":  # which is both
        what = "takes an id" if row.kind == "request" else "is a notification and takes no id"
        facts.report(10, frame, f"{frame.method} {what}")


def _report_unknown(frame: DecodedFrame, facts: Facts) -> None:
    """Report a method that the protocol does not have: only names that begin with `_` are free for extensions."""
    if frame.method in DRAFT_METHODS:
        facts.report(331, frame, f"{frame.method}: a method of a draft that was dropped", "lc")
    elif frame.method.startswith("$/"):
        # JSON-RPC peers take the liberty to send these to each other, and ignore those they do not know.
        facts.report(331, frame, f"{frame.method}: not a method of the protocol", "lc")
    else:
        what = f"{frame.method}: not a method of the protocol in this direction, and names of extensions begin with _"
        facts.report(331, frame, what, "MUST")


def _check_response(frame: DecodedFrame, facts: Facts) -> None:
    request = frame.request
    if request is None:
        _check_unasked(frame, facts)
    if frame.part == "error":
        _check_error(frame, facts)
    if request is None or request.kind == "malformed":
        return
    if request.row is None and not request.method.startswith("_") and frame.error_code != METHOD_NOT_FOUND:
        # A success shows that it has a method of its own, or of a draft; another error shows that it does not.
        level = "NOTE" if frame.part == "result" or request.method in DRAFT_METHODS else ""
        facts.report(28, frame, f"{request.method} is not in the protocol, yet the answer is not -32601", level)
    if frame.part == "error":
        _check_code(frame, request, facts)


def _check_code(frame: DecodedFrame, request: DecodedFrame, facts: Facts) -> None:
    """Report a code of the protocol that the request rules out."""
    code = frame.error_code
    if code == PARSE_ERROR:
        facts.report(337, frame, "-32700 is for lines that cannot be parsed, and this answers a request by its id")
    elif request.fault is not None and code in (INTERNAL_ERROR, METHOD_NOT_FOUND):
        # No rule demands a certain answer to what a peer may not send.
        facts.report(337, frame, f"the params of message {request.number} do not fit, yet the answer is {code}", "lc")


def _check_unasked(frame: DecodedFrame, facts: Facts) -> None:
    if frame.id is None and frame.part == "error":
        return  # the answer to a line whose id could not be read
    if frame.repeats:
        facts.report(25, frame, f"the request {frame.id!r} has an answer already")
        return
    twin = _other_type(frame, facts)
    if twin is not None:
        facts.report(20, frame, f"the answer's id is {frame.id!r}, the request's is {twin!r}")
    elif facts.sees_start:
        facts.report(24, frame, f"there was no request with the id {frame.id!r}")


def _other_type(frame: DecodedFrame, facts: Facts) -> object:
    """Return the id of an open request that differs from this response's id in its type only."""
    return next(
        (
            request.id
            for request in facts.exchange.open[OTHER[frame.dir]].values()
            if request.id is not None and str(request.id) == str(frame.id)
        ),
        None,
    )


def _check_error(frame: DecodedFrame, facts: Facts) -> None:
    code, message = frame.plain["code"], frame.plain["message"]
    if code in RESERVED_CODES and code not in KNOWN_CODES:
        facts.report(340, frame, f"{code} is in the reserved range and is not one of its codes")
    if "\n" in message or len(message) > SHORT_MESSAGE_CHARS:
        facts.report(343, frame, f"the error's message has {len(message)} characters")

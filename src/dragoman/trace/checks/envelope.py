"""The JSON-RPC envelope: lines that are no message, ids, answers, error objects.

Looks at frames of every method, and at the pairing of requests and answers. Knows no method by name.
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
)
from dragoman.trace.inspect.exchange import OTHER
from dragoman.wire import Malformed

if TYPE_CHECKING:
    from dragoman.trace.checks.link import Link
    from dragoman.trace.inspect.exchange import Reading

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
    }
)
RESERVED_CODES: Final = range(-32768, -31999)
# Rule 343 asks for one short sentence. Three lines of a terminal are no short sentence in any reading.
SHORT_MESSAGE_CHARS: Final = 240

NOISE: Final = {"a2c": 6, "c2a": 7}
# How `wire.envelope` begins its verdicts -> the rule they are about.
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
# These are limits of ours (rule 14): a peer may well send more.
LIMITS: Final = ("the line nests", "the line holds more than")


def check_envelope(reading: Reading, link: Link) -> None:
    """Reports what is wrong with a frame before its method is looked at."""
    match reading.kind:
        case "malformed":
            _check_malformed(reading, link)
        case "request":
            _check_request(reading, link)
        case "notification":
            _check_kind(reading, link)
        case "response":
            _check_response(reading, link)


def _check_malformed(reading: Reading, link: Link) -> None:
    message = reading.message
    assert isinstance(message, Malformed)
    if message.why.startswith(LIMITS):
        link.report(14, reading, message.why, "NOTE")
        return
    rule = next((rule for start, rule in VERDICTS if message.why.startswith(start)), NOISE[reading.dir])
    link.report(rule, reading, message.why)


def _check_request(reading: Reading, link: Link) -> None:
    if reading.id is None:
        link.report(21, reading, "a request with the id null cannot be told from others")
    elif reading.repeats:
        link.report(25, reading, f"the id {reading.id!r} belongs to a request that is still open", "NOTE")
    _check_kind(reading, link)


def _check_kind(reading: Reading, link: Link) -> None:
    row = reading.row
    if row is None:
        if not reading.method.startswith("_"):
            link.report(331, reading, f"{reading.method}: no method of the protocol in this direction", "NOTE")
    elif row.kind != reading.kind and row.name != "mcp/message":  # which is both
        what = "takes an id" if row.kind == "request" else "is a notification and takes no id"
        link.report(10, reading, f"{reading.method} {what}")


def _check_response(reading: Reading, link: Link) -> None:
    request = reading.request
    if request is None:
        _check_unasked(reading, link)
    if reading.part == "error":
        _check_error(reading, link)
    if request is None or request.kind == "malformed":
        return
    if request.row is None and not request.method.startswith("_") and reading.error_code != METHOD_NOT_FOUND:
        # It may know a method of its own, or of a draft; no answer but -32601 says that it does not.
        link.report(28, reading, f"{request.method} is no method of the protocol, yet the answer is not -32601", "NOTE")


def _check_unasked(reading: Reading, link: Link) -> None:
    if reading.id is None and reading.part == "error":
        return  # the answer to a line whose id could not be read
    if reading.repeats:
        link.report(25, reading, f"the request {reading.id!r} has an answer already")
        return
    twin = _other_type(reading, link)
    if twin is not None:
        link.report(20, reading, f"the answer's id is {reading.id!r}, the request's is {twin!r}")
    elif link.sees_start:
        link.report(24, reading, f"nobody asked anything with the id {reading.id!r}")


def _other_type(reading: Reading, link: Link) -> object:
    """The id of an open request that differs from this answer's in its type only."""
    return next(
        (
            request.id
            for request in link.exchange.open[OTHER[reading.dir]].values()
            if request.id is not None and str(request.id) == str(reading.id)
        ),
        None,
    )


def _check_error(reading: Reading, link: Link) -> None:
    code, message = reading.plain["code"], reading.plain["message"]
    if code in RESERVED_CODES and code not in KNOWN_CODES:
        link.report(340, reading, f"{code} lies in the reserved range and is none of its codes")
    if "\n" in message or len(message) > SHORT_MESSAGE_CHARS:
        link.report(343, reading, f"the error's message has {len(message)} characters")

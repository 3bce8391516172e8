"""Everything a peer can do wrong on the wire, and the response: one table for both roles and every transport."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

MIB = 1024 * 1024


class BadInput(NamedTuple):
    """Bytes that are wrong, and the error codes with ids that come back, in order. None: nothing comes back."""

    name: str
    data: bytes
    answers: list[tuple[int, Any]]
    rules: tuple[int, ...] = ()


def _line(message: object) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _call(request_id: object, method: str = "_no/such", **extra: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": {}, **extra}


BAD_INPUTS: list[BadInput] = [
    BadInput("invalid JSON", b"{nope}\n", [(-32700, None)], (12,)),
    BadInput("log noise", b"INFO starting up...\n", [(-32700, None)], (6, 7, 12)),
    BadInput("noise with colour", b"\x1b[32mready\x1b[0m\n", [(-32700, None)]),
    BadInput("invalid UTF-8", b'{"jsonrpc":"2.0","id":7,"method":"_x","params":{"a":"\xff"}}\n', [(-32700, 7)], (1,)),
    BadInput("lone surrogate", b'{"jsonrpc":"2.0","id":7,"method":"_x","params":{"a":"\\ud800"}}\n', [(-32700, 7)]),
    BadInput("a number", b"42\n", [(-32600, None)], (10,)),
    BadInput("a string", b'"hello"\n', [(-32600, None)], (10,)),
    BadInput("null", b"null\n", [(-32600, None)], (10,)),
    BadInput("true", b"true\n", [(-32600, None)], (10,)),
    BadInput("an empty batch", b"[]\n", [(-32600, None)], (11,)),
    BadInput("a batch", _line([_call(1), _call(2)]), [(-32600, None)], (11,)),
    BadInput("an empty object", b"{}\n", [(-32600, None)], (22,)),
    BadInput("missing jsonrpc", _line({"id": 5, "method": "_x"}), [(-32600, 5)], (19,)),
    BadInput("jsonrpc 1.0", _line({"jsonrpc": "1.0", "id": 5, "method": "_x"}), [(-32600, 5)], (19,)),
    BadInput("jsonrpc as a number", _line({"jsonrpc": 2.0, "id": 5, "method": "_x"}), [(-32600, 5)], (19,)),
    BadInput("method not a string", _line({"jsonrpc": "2.0", "id": 5, "method": 1}), [(-32600, 5)]),
    BadInput("method a list", _line({"jsonrpc": "2.0", "id": 5, "method": ["_x"]}), [(-32600, 5)]),
    BadInput("params a string", _line(_call(5, params="x")), [(-32600, 5)]),
    BadInput("unknown method", _line(_call(5)), [(-32601, 5)], (28,)),
    BadInput("unknown method of the protocol's form", _line(_call(5, "session/teleport")), [(-32601, 5)], (28,)),
    BadInput("unknown method, id a string", _line(_call("a-1")), [(-32601, "a-1")], (20,)),
    BadInput("unknown method, id zero", _line(_call(0)), [(-32601, 0)], (20,)),
    BadInput("unknown method, id negative", _line(_call(-3)), [(-32601, -3)], (20,)),
    BadInput("unknown method, id null", _line(_call(None)), [(-32601, None)], (20,)),
    BadInput("unknown method, id 2^63-1", _line(_call(2**63 - 1)), [(-32601, 2**63 - 1)], (20,)),
    BadInput("id a boolean", _line(_call(True)), [(-32600, None)], (20, 21)),
    BadInput("id a fraction", _line(_call(1.5)), [(-32600, None)], (20, 21)),
    BadInput("id an object", _line(_call({"a": 1})), [(-32600, None)], (20,)),
    BadInput("id a list", _line(_call([1])), [(-32600, None)], (20,)),
    BadInput("unknown notification", _line({"jsonrpc": "2.0", "method": "_x/y", "params": {}}), [], (24, 29, 334)),
    BadInput("response to an unknown id", _line({"jsonrpc": "2.0", "id": 98765, "result": {}}), [], (30,)),
    BadInput("response with a string id", _line({"jsonrpc": "2.0", "id": "1", "result": {}}), [], (20, 30)),
    BadInput("response with an object as id", _line({"jsonrpc": "2.0", "id": {"a": 1}, "result": {}}), []),
    BadInput("response without id", _line({"jsonrpc": "2.0", "result": {}}), []),
    BadInput(
        "response with a null id", _line({"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "x"}}), []
    ),
    BadInput(
        "response with both outcomes", _line({"jsonrpc": "2.0", "id": 98765, "result": 1, "error": {}}), [], (22,)
    ),
    BadInput("response with neither outcome", _line({"jsonrpc": "2.0", "id": 98765}), [], (22,)),
    BadInput("response with a malformed error", _line({"jsonrpc": "2.0", "id": 98765, "error": "boom"}), [], (23,)),
    BadInput("blank lines", b"\n\n  \n\t\n", [], (13,)),
    BadInput("CRLF", _line(_call(5)).replace(b"\n", b"\r\n"), [(-32601, 5)]),
    BadInput("a separator inside a string", _line(_call(5, "_x\u2028y\u2029z")), [(-32601, 5)], (4, 5)),
    BadInput(
        "a raw separator inside a string",
        json.dumps(_call(5, "_x\u2028"), ensure_ascii=False).encode() + b"\n",
        [(-32601, 5)],
    ),
    BadInput("NaN", b'{"jsonrpc":"2.0","id":5,"method":"_x","params":{"a":NaN}}\n', [(-32700, 5)]),
    BadInput(
        "nesting of 100,000",
        b'{"jsonrpc":"2.0","id":5,"method":"_x","params":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
        [(-32700, 5)],
    ),
    BadInput("two messages on one line", _line(_call(5))[:-1] + _line(_call(6)), [(-32700, 5)], (4,)),
    BadInput(
        "meta that carries argument names",
        _line(_call(5, params={"_meta": {"session_id": "EVIL", "self": 1}})),
        [(-32601, 5)],
        (328,),
    ),
]
"""Cases both roles meet alike. What is bad by its sheer size has tests of its own."""

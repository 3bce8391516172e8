"""Wrong agents for the cases about lines, envelopes, extensions and errors."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.conformance.tamper import Body, Mutation, Wire, answers, code, fails_turn_on_reply, refusal, reply


def _id(change: Any, when: Any) -> Mutation:
    """Changes the id of responses."""

    def sent(wire: Wire, body: Body) -> list[Body] | None:
        if "method" in body or not when(body.get("id")):
            return None
        return [{**body, "id": change(body["id"])}]

    return Mutation(sent=sent)


def _drops_responses(when: Any) -> Mutation:
    def sent(wire: Wire, body: Body) -> list[Body] | None:
        return [] if "method" not in body and when(body) else None

    return Mutation(sent=sent)


def _answers_notifications(when: Any) -> Mutation:
    def came(wire: Wire, body: Body) -> list[Body] | None:
        if "method" in body and "id" not in body and when(body["method"]):
            wire.send(refusal({"id": None}, -32601))
        return None

    return Mutation(came=came)


def _crashes_on(test: Any) -> Mutation:
    def came(wire: Wire, body: Body) -> list[Body] | None:
        if not test(body):
            return None
        wire.crash()
        return []

    return Mutation(came=came)


def _twice(wire: Wire, body: Body) -> list[Body] | None:
    return [body, body] if "error" in body else None


def _answers_responses() -> Mutation:
    def came(wire: Wire, body: Body) -> list[Body] | None:
        if "method" not in body and repr(body.get("id")) not in wire.asking:
            wire.send(refusal(body, -32600))
        return None

    return Mutation(came=came)


def _mixes_ids() -> Mutation:
    """A request of the client with the id of one of its own looks like the answer to that."""

    def came(wire: Wire, body: Body) -> list[Body] | None:
        if "method" in body and repr(body.get("id")) in wire.asking:
            return [{"jsonrpc": "2.0", "id": body["id"], "result": {"outcome": {"outcome": "cancelled"}}}]
        return None

    return Mutation(came=came)


def _one_at_a_time() -> Mutation:
    """Requests wait until the turn is over."""

    def came(wire: Wire, body: Body) -> list[Body] | None:
        if "method" in body and "id" in body and wire.turns and body["method"] != "session/prompt":
            wire.notes.setdefault("waiting", []).append(body)
            return []
        return None

    def sent(wire: Wire, body: Body) -> list[Body] | None:
        if wire.request_of(body).get("method") != "session/prompt":
            return None
        waiting = wire.notes.pop("waiting", [])
        return [body, *(refusal(each, -32601) for each in waiting)]

    return Mutation(came=came, sent=sent)


def _swaps_pieces() -> Mutation:
    def sent(wire: Wire, body: Body) -> list[Body] | None:
        if body.get("method") != "session/update":
            return None
        if body["params"]["update"]["sessionUpdate"] != "agent_message_chunk":
            return None
        held = wire.notes.pop("held", None)
        if held is None:
            wire.notes["held"] = body
            return []
        return [body, held]

    return Mutation(sent=sent)


def _error(**members: Any) -> Mutation:
    def sent(wire: Wire, body: Body) -> list[Body] | None:
        if "error" not in body:
            return None
        body["error"].update(members)
        return [body]

    return Mutation(sent=sent)


ENVELOPE = {
    "id-number": _id(str, lambda id: type(id) is int and id < 0),
    "id-string": _id(int, lambda id: isinstance(id, str) and id.isdigit()),
    "id-64-bit": _id(float, lambda id: type(id) is int and id > 2**60),
    "id-unusual": _drops_responses(lambda body: body.get("id") is None),
    "id-invalid": _drops_responses(lambda body: body.get("id") is None),
    "empty-object": _drops_responses(lambda body: body.get("id") is None),
    "method-not-a-string": _drops_responses(lambda body: body.get("id") == "list"),
    "one-response": Mutation(sent=_twice),
    "notification-unanswered": _answers_notifications(lambda method: True),
    "notification-ignored": _crashes_on(lambda body: "id" not in body and "no-such" in str(body.get("method"))),
    "unknown-method": code(-32601, -32603),
    "stray-response": _answers_responses(),
    "independent-ids": _mixes_ids(),
    "concurrent-requests": _one_at_a_time(),
    "update-order": _swaps_pieces(),
}
EXTENSIONS = {
    "answered": answers("_dragoman.check/question", lambda request: None),
    "unknown": answers("_dragoman.check/question", lambda request: reply(request, None)),
    "notification": _answers_notifications(lambda method: method.startswith("_")),
    "refused-by-client": fails_turn_on_reply(lambda body: body.get("error", {}).get("code") == -32601),
}
ERRORS = {
    "login-code": code(-32002, -32000),
    "shape": _error(code="-32601"),
    "short-message": _error(message="Traceback (most recent call last):\n" + "  File\n" * 40),
}

# Lines


def _line(drop: Any) -> Mutation:
    """Does not see lines like that."""
    return Mutation(line=lambda wire, line: [] if drop(line) else None)


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _crashes_on_garbage(wire: Wire, line: bytes) -> list[bytes] | None:
    if line.strip() and not _is_json(line):
        wire.crash()
        return []
    return None


def _answers_blank(wire: Wire, line: bytes) -> list[bytes] | None:
    if not line.strip():
        wire.send(refusal({"id": None}, -32700))
    return None


def _executes_batch(wire: Wire, line: bytes) -> list[bytes] | None:
    if not line.startswith(b"["):
        return None
    return [msgspec.json.encode(each) for each in msgspec.json.decode(line)]


def _deaf_after_large(wire: Wire, line: bytes) -> list[bytes] | None:
    if len(line) > 10_000_000:
        wire.notes["deaf"] = True
    return [] if wire.notes.get("deaf") else None


def _forgets_rest(wire: Wire) -> bool:
    wire.rest.clear()
    return True


TRANSPORT = {
    "one-message-per-line": Mutation(chunk=lambda wire, data: data if data.endswith(b"\n") else data + b"\n"),
    "blank-lines": Mutation(line=_answers_blank),
    "carriage-return": _line(lambda line: line.endswith(b"\r") and bool(line.strip())),
    "garbage-answered": _line(lambda line: not _is_json(line)),
    "garbage-survived": Mutation(line=_crashes_on_garbage),
    "not-an-object": _line(lambda line: line == b"42"),
    "batch": Mutation(line=_executes_batch),
    "invalid-utf8": _line(lambda line: b"\xff" in line),
    "deep-nesting": _line(lambda line: b"[[[[" in line),
    "large-frame": _line(lambda line: len(line) > 1_000_000),
    "oversized-frame": Mutation(line=_deaf_after_large),
    "last-line": Mutation(at_end=_forgets_rest),
    "exit-at-eof": Mutation(at_end=lambda wire: False),
    "exit-in-turn": Mutation(at_end=lambda wire: not wire.turns),
    "exit-mid-line": Mutation(at_end=lambda wire: not wire.rest),
}

BY_AREA: dict[str, dict[str, Mutation]] = {
    "envelope": ENVELOPE,
    "extensions": EXTENSIONS,
    "errors": ERRORS,
    "transport": TRANSPORT,
}

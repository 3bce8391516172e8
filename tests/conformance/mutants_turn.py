"""Wrong agents for the cases about turns: prompts, cancellation, updates, and what is asked of the client."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.conformance.mutants_session import drop, put
from tests.conformance.tamper import (
    Body,
    Mutation,
    Wire,
    asked,
    code,
    crashes_on_reply,
    fails_turn_on_reply,
    refusal,
    refuses,
    replies,
    reply,
    response,
    result,
    update,
)

CHUNK: Body = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "one more thing"}}
SELECTED = {"outcome": {"outcome": "selected", "optionId": "allow"}}


def _is_prompt_end(wire: Wire, body: Body) -> bool:
    return wire.request_of(body).get("method") == "session/prompt"


def _text(params: Body) -> str:
    return str(params["prompt"][0].get("text")) if params.get("prompt") else ""


def _has_block(kind: str) -> Any:
    return lambda params: any(block["type"] == kind for block in params["prompt"])


def _update(session_id: str, update: Body) -> Body:
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session_id, "update": update}}


def _speaks_after_end(reason: str) -> Mutation:
    """A piece of the message comes after the answer."""

    def sent(wire: Wire, body: Body) -> list[Body] | None:
        if not _is_prompt_end(wire, body) or body.get("result", {}).get("stopReason") != reason:
            return None
        return [body, _update(wire.request_of(body)["params"]["sessionId"], CHUNK)]

    return Mutation(sent=sent)


def _one_piece() -> Mutation:
    """Collects the message and sends it whole, before the answer."""

    def sent(wire: Wire, body: Body) -> list[Body] | None:
        held = wire.notes.setdefault("held", [])
        if body.get("method") == "session/update":
            each = body["params"]["update"]
            if each["sessionUpdate"] == "agent_message_chunk":
                held.append(body)
                return []
        if _is_prompt_end(wire, body) and held:
            text = "".join(one["params"]["update"]["content"]["text"] for one in held)
            whole = held[0]
            whole["params"]["update"]["content"]["text"] = text
            held.clear()
            return [whole, body]
        return None

    return Mutation(sent=sent)


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


def _second_prompt(then: Any) -> Mutation:
    def came(wire: Wire, body: Body) -> list[Body] | None:
        if body.get("method") != "session/prompt":
            return None
        wire.notes["prompts"] = wire.notes.get("prompts", 0) + 1
        return None if wire.notes["prompts"] == 1 else then(wire, body)

    return Mutation(came=came)


def _refuse(wire: Wire, body: Body) -> list[Body]:
    wire.send(refusal(body))
    return []


# Cancelling


def _cancel_is(outcome: str | int) -> Mutation:
    """A cancelled turn is answered with another stop reason, or with an error of a code."""

    def change(body: Body) -> Body | None:
        if body.get("result", {}).get("stopReason") != "cancelled":
            return None
        return refusal(body, outcome) if isinstance(outcome, int) else reply(body, {"stopReason": outcome})

    return response("session/prompt", change)


def _delays_end(seconds: float) -> Mutation:
    def sent(wire: Wire, body: Body) -> list[Body] | None:
        if not _is_prompt_end(wire, body):
            return None
        asyncio.get_running_loop().call_later(seconds, wire.send, body)
        return []

    return Mutation(sent=sent)


def _refuses_after_cancel() -> Mutation:
    def came(wire: Wire, body: Body) -> list[Body] | None:
        if body.get("method") == "session/cancel":
            wire.notes["cancelled"] = True
        elif body.get("method") == "session/prompt" and wire.notes.get("cancelled"):
            return _refuse(wire, body)
        return None

    return Mutation(came=came)


def _cancels_every_session() -> Mutation:
    def came(wire: Wire, body: Body) -> list[Body] | None:
        if body.get("method") != "session/cancel":
            return None
        return [{"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": each}} for each in wire.turns]

    return Mutation(came=came)


def _answers_cancel() -> Mutation:
    def came(wire: Wire, body: Body) -> list[Body] | None:
        if body.get("method") == "session/cancel":
            wire.send(refusal({"id": None}, -32002))
        return None

    return Mutation(came=came)


def _remembers_late_cancel() -> Mutation:
    def came(wire: Wire, body: Body) -> list[Body] | None:
        if body.get("method") == "session/cancel" and not wire.turns:
            wire.notes["cancelled"] = True
        if body.get("method") == "session/prompt" and wire.notes.get("cancelled"):
            wire.send(reply(body, {"stopReason": "cancelled"}))
            return []
        return None

    return Mutation(came=came)


def _answers_cancel_request() -> Mutation:
    def came(wire: Wire, body: Body) -> list[Body] | None:
        if body.get("method") == "$/cancel_request":
            wire.send(refusal({"id": body["params"]["requestId"]}, -32800))
        return None

    return Mutation(came=came)


def _twice(wire: Wire, body: Body) -> list[Body] | None:
    return [body, body] if _is_prompt_end(wire, body) else None


CANCEL = {
    "streaming": _cancel_is("end_turn"),
    "at-once": _cancel_is(-32603),
    "in-tool": _cancel_is(-32800),
    "permission-open": _cancel_is("refusal"),
    "read-open": _cancel_is(-32603),
    "elicitation-open": _cancel_is("end_turn"),
    "cascades": asked("$/cancel_request", put(requestId=987)),
    "twice": Mutation(sent=_twice),
    "updates-first": _speaks_after_end("cancelled"),
    "soon": _delays_end(0.5),
    "next-turn": _refuses_after_cancel(),
    "other-session": _cancels_every_session(),
    "idle": _answers_cancel(),
    "too-late": _remembers_late_cancel(),
    "request": _cancel_is(-32603),
    "request-unknown": _answers_cancel_request(),
}

PROMPT = {
    "stop-reason": result("session/prompt", put(stopReason="done")),
    "text-and-link": refuses("session/prompt", _has_block("resource_link")),
    "image": refuses("session/prompt", _has_block("image")),
    "audio": refuses("session/prompt", _has_block("audio")),
    "embedded-context": refuses("session/prompt", _has_block("resource")),
    "unknown-session": code(-32002, -32603),
    "params-missing": code(-32602, -32603),
    "streams": _one_piece(),
    "updates-first": _speaks_after_end("end_turn"),
    "sessions-apart": _second_prompt(lambda wire, body: []),
    "one-after-another": _second_prompt(_refuse),
    "overlap": _second_prompt(lambda wire, body: []),
    "meta-ignored": refuses("session/prompt", lambda params: "_meta" in params),
    "non-ascii": refuses("session/prompt", lambda params: "\u2028" in _text(params)),
}

# What it reports


def _after_final(params: Body) -> None:
    if params["update"].get("status") == "completed":
        params["update"]["status"] = "in_progress"


def _restarts_compaction() -> Mutation:
    def sent(wire: Wire, body: Body) -> list[Body] | None:
        each = body["params"]["update"] if body.get("method") == "session/update" else {}
        if each.get("sessionUpdate") != "compaction_update" or each.get("status") != "completed":
            return None
        return [body, _update(body["params"]["sessionId"], {**each, "status": "in_progress"})]

    return Mutation(sent=sent)


def _announces_twice() -> Mutation:
    def sent(wire: Wire, body: Body) -> list[Body] | None:
        each = body["params"]["update"] if body.get("method") == "session/update" else {}
        return [body, body] if each.get("sessionUpdate") == "tool_call" else None

    return Mutation(sent=sent)


def _same_tool_call_id() -> Mutation:
    def change(params: Body) -> None:
        if "toolCallId" in params["update"]:
            params["update"]["toolCallId"] = "call-1"

    return asked("session/update", change)


def _shrinks_plan() -> Mutation:
    def sent(wire: Wire, body: Body) -> list[Body] | None:
        each = body["params"]["update"] if body.get("method") == "session/update" else {}
        if each.get("sessionUpdate") != "plan":
            return None
        wire.notes["plans"] = wire.notes.get("plans", 0) + 1
        if wire.notes["plans"] > 1:
            each["entries"] = each["entries"][:1]
        return [body]

    return Mutation(sent=sent)


def _bad_base64(each: Body) -> None:
    if "data" in each["content"]:
        each["content"]["data"] = "%%%"


def _tool_content(change: Any) -> Mutation:
    def edit(each: Body) -> None:
        for item in each.get("content") or ():
            change(item)

    return update("tool_call_update", edit)


UPDATES = {
    "message": update("agent_message_chunk", drop("content")),
    "thought": update("agent_thought_chunk", put(content=[{"type": "text", "text": "hm"}])),
    "content": update("agent_message_chunk", _bad_base64),
    "plan": update("plan", lambda each: [entry.pop("priority") for entry in each["entries"]] and None),
    "plan-progress": _shrinks_plan(),
    "usage": update("usage_update", lambda each: each["cost"].update(currency="euros")),
    "commands": update(
        "available_commands_update", lambda each: each["availableCommands"][0].pop("description") and None
    ),
    "session-info": update("session_info_update", put(cwd="/")),
    "notice": update("notice", put(title="")),
    "compaction": _restarts_compaction(),
}
TOOL_CALLS = {
    "reported": update("tool_call", put(kind="dance")),
    "announced-once": _announces_twice(),
    "unique-ids": _same_tool_call_id(),
    "finished": update("tool_call_update", lambda each: each.get("status") != "completed" and None),
    "diff": _tool_content(lambda item: item.update(path="main.py") if item["type"] == "diff" else None),
    "locations": update("tool_call", lambda each: [at.update(line=0) for at in each.get("locations") or ()] and None),
}

# What it asks


def _replies_become_yes(test: Any) -> Mutation:
    """Takes an answer for a permission that is none, and makes the file it asked for."""

    def change(wire: Wire, body: Body) -> list[Body] | None:
        if not test(body):
            return None
        prompts = [request for request in wire.asked.values() if request["method"] == "session/prompt"]
        Path(_text(prompts[-1]["params"]).removeprefix("permission ")).touch()
        return [reply(body, SELECTED)]

    return replies("session/request_permission", change)


def _outcome(body: Body) -> Body:
    found = body.get("result", {}).get("outcome")
    return found if isinstance(found, dict) else {}


PERMISSION = {
    "shape": asked("session/request_permission", lambda params: params["options"][0].update(kind="maybe")),
    "after-tool-call": update("tool_call", lambda each: False),
    "allowed": update("tool_call_update", lambda each: False),
    "rejected": _replies_become_yes(lambda body: _outcome(body).get("optionId") == "reject"),
    "not-decided": _replies_become_yes(lambda body: _outcome(body).get("outcome") == "cancelled"),
    "unknown-option": _replies_become_yes(lambda body: _outcome(body).get("optionId") == "allow-everything"),
    "unknown-outcome": _replies_become_yes(lambda body: _outcome(body).get("outcome") == "_later"),
    "error": crashes_on_reply(lambda body: "error" in body),
}
FILES = {
    "read": asked("fs/read_text_file", put(line=0)),
    "write": asked("fs/write_text_file", lambda params: params.pop("content") and None),
    "null-result": fails_turn_on_reply(lambda body: "result" in body and body["result"] is None),
    "unknown-error": crashes_on_reply(lambda body: "error" in body),
    "not-found": fails_turn_on_reply(lambda body: "error" in body),
    "large": crashes_on_reply(lambda body: len(str(body)) > 500_000),
}


def _keeps_terminals(when: Any) -> Mutation:
    """Releases nothing; the agent thinks it did."""

    def sent(wire: Wire, body: Body) -> list[Body] | None:
        if body.get("method") != "terminal/release" or not when(wire):
            return None
        asyncio.get_running_loop().call_soon(wire.give, reply(body, {}))
        return []

    def came(wire: Wire, body: Body) -> list[Body] | None:
        if body.get("method") == "session/cancel":
            wire.notes["cancelled"] = True
        if "error" in body:
            wire.notes["error"] = True
        return None

    return Mutation(sent=sent, came=came)


def _shows_released_terminal() -> Mutation:
    def sent(wire: Wire, body: Body) -> list[Body] | None:
        each = body["params"]["update"] if body.get("method") == "session/update" else {}
        items = each.get("content")
        if isinstance(items, list) and any(item.get("type") == "terminal" for item in items):
            wire.notes.setdefault("held", []).append(body)
            return []
        if body.get("method") == "terminal/release":
            return [body, *wire.notes.pop("held", [])]
        return None

    return Mutation(sent=sent)


TERMINALS = {
    "create": asked("terminal/create", put(env={"A": "b"})),
    "command-is-a-program": asked("terminal/create", put(command="echo one && echo two", args=[])),
    "released": _keeps_terminals(lambda wire: True),
    "released-when-cancelled": _keeps_terminals(lambda wire: wire.notes.get("cancelled")),
    "released-after-error": _keeps_terminals(lambda wire: wire.notes.get("error")),
    "create-fails": crashes_on_reply(lambda body: "error" in body),
    "shown-before-release": _shows_released_terminal(),
}


def _form_property(name: str) -> Mutation:
    return asked(
        "elicitation/create",
        lambda params: params["requestedSchema"]["properties"].update({name: {"type": "string", "title": name}}),
    )


def _action(name: str) -> Any:
    return lambda body: isinstance(body.get("result"), dict) and body["result"].get("action") == name


ELICITATION = {
    "form": asked("elicitation/create", drop("sessionId")),
    "no-secrets": _form_property("password"),
    "page": asked("elicitation/create", drop("elicitationId")),
    "safe-page": asked("elicitation/create", put(url="https://example.org/?access_token=abc")),
    "unique-ids": asked("elicitation/create", put(elicitationId="the-only-one")),
    "completed": asked("elicitation/complete", put(elicitationId="another")),
    "declined": fails_turn_on_reply(_action("decline")),
    "cancelled": fails_turn_on_reply(_action("cancel")),
    "failed": crashes_on_reply(lambda body: "error" in body),
    "unknown-action": crashes_on_reply(_action("_later")),
    "unfit-content": crashes_on_reply(_action("accept")),
}

BY_AREA: dict[str, dict[str, Mutation]] = {
    "cancel": CANCEL,
    "prompt": PROMPT,
    "updates": UPDATES,
    "tool-calls": TOOL_CALLS,
    "permission": PERMISSION,
    "files": FILES,
    "terminals": TERMINALS,
    "elicitation": ELICITATION,
}

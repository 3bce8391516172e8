"""Wrong agents for the cases about the handshake, capabilities, logins, sessions and their settings."""

from __future__ import annotations

from typing import Any

from tests.conformance.tamper import (
    Body,
    Mutation,
    Wire,
    answers,
    asked,
    both,
    code,
    received,
    refusal,
    refuses,
    reply,
    response,
    result,
    update,
)

EVERYTHING: Body = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "auth": {"terminal": True},
    "elicitation": {"form": {}, "url": {}},
    "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
}
OPTION = {"id": "x", "name": "X", "type": "select", "currentValue": "a", "options": [{"value": "a", "name": "A"}]}


def drop(*names: str) -> Any:
    """Takes members out of a value."""

    def change(value: Body) -> None:
        for name in names:
            value.pop(name, None)

    return change


def put(**members: Any) -> Any:
    """Sets members of a value."""
    return lambda value: value.update(members)


def ignores_capabilities() -> Mutation:
    """Believes that every client can do everything."""
    return received("initialize", lambda params: params.update(clientCapabilities=EVERYTHING))


def is_loading(wire: Wire) -> bool:
    return any(
        request["method"] == "session/load" and request["id"] not in wire.notes.setdefault("answered", set())
        for request in wire.asked.values()
    )


def while_loading(change: Any) -> Mutation:
    """Changes the updates of a replay: `change(update)` edits, gives a list instead, or False to leave it out."""

    def sent(wire: Wire, body: Body) -> list[Body] | None:
        if wire.request_of(body).get("method") == "session/load":
            wire.notes.setdefault("answered", set()).add(body["id"])
            return None
        if body.get("method") != "session/update" or not is_loading(wire):
            return None
        changed = change(body["params"]["update"])
        return [] if changed is False else [body]

    return Mutation(sent=sent)


def _history_after_answer() -> Mutation:
    def sent(wire: Wire, body: Body) -> list[Body] | None:
        held = wire.notes.setdefault("held", [])
        if wire.request_of(body).get("method") == "session/load":
            wire.notes.setdefault("answered", set()).add(body["id"])
            return [body, *held]
        if body.get("method") == "session/update" and is_loading(wire):
            held.append(body)
            return []
        return None

    return Mutation(sent=sent)


def _reversed_history() -> Mutation:
    def sent(wire: Wire, body: Body) -> list[Body] | None:
        held = wire.notes.setdefault("held", [])
        if wire.request_of(body).get("method") == "session/load":
            wire.notes.setdefault("answered", set()).add(body["id"])
            return [*reversed(held), body]
        if body.get("method") == "session/update" and is_loading(wire):
            held.append(body)
            return []
        return None

    return Mutation(sent=sent)


def _adds_before_answer(method: str, kind: str, **members: Any) -> Mutation:
    """Sends an update right before the answer to a request about a session."""

    def sent(wire: Wire, body: Body) -> list[Body] | None:
        request = wire.request_of(body)
        if request.get("method") != method or "result" not in body:
            return None
        session_id = request["params"].get("sessionId") or body["result"].get("sessionId")
        params = {"sessionId": session_id, "update": {"sessionUpdate": kind, **members}}
        return [{"jsonrpc": "2.0", "method": "session/update", "params": params}, body]

    return Mutation(sent=sent)


def _refuses_prompts_after(method: str) -> Mutation:
    def came(wire: Wire, body: Body) -> list[Body] | None:
        if body.get("method") == method:
            wire.notes["refuses"] = True
        if body.get("method") == "session/prompt" and wire.notes.get("refuses"):
            wire.send(refusal(body))
            return []
        return None

    return Mutation(came=came)


def _before_initialize(answer: Any) -> Mutation:
    def came(wire: Wire, body: Body) -> list[Body] | None:
        if body.get("method") == "initialize":
            wire.notes["initialized"] = True
        elif not wire.notes.get("initialized") and "id" in body:
            return answer(wire, body)  # type: ignore[no-any-return]
        return None

    return Mutation(came=came)


def _crash(wire: Wire, body: Body) -> list[Body]:
    wire.crash()
    return []


def _once(method: str, then: Any) -> Mutation:
    """The second request of a method is answered by `then`."""

    def came(wire: Wire, body: Body) -> list[Body] | None:
        if body.get("method") != method or "id" not in body:
            return None
        key = str((body.get("params") or {}).get("sessionId"))
        seen = wire.notes.setdefault("seen", set())
        if key in seen:
            wire.send(then(body))
            return []
        seen.add(key)
        return None

    return Mutation(came=came)


def _during_turn(method: str) -> Mutation:
    def came(wire: Wire, body: Body) -> list[Body] | None:
        if body.get("method") != method or not wire.turns:
            return None
        wire.send(refusal(body, -32600))
        return []

    return Mutation(came=came)


def _leaks_params() -> Mutation:
    def sent(wire: Wire, body: Body) -> list[Body] | None:
        if "error" not in body:
            return None
        body["error"]["data"] = wire.request_of(body).get("params")
        return [body]

    return Mutation(sent=sent)


def _every_second_list_backwards() -> Mutation:
    def sent(wire: Wire, body: Body) -> list[Body] | None:
        if wire.request_of(body).get("method") != "session/list" or "result" not in body:
            return None
        wire.notes["lists"] = wire.notes.get("lists", 0) + 1
        if wire.notes["lists"] % 2 == 0:
            body["result"]["sessions"] = [{"sessionId": "stray", "cwd": "/"}, *body["result"]["sessions"]]
        return [body]

    return Mutation(sent=sent)


def _prompt_of_closed_succeeds() -> Mutation:
    return response(
        "session/prompt",
        lambda body: reply(body, {"stopReason": "end_turn"}) if body.get("error", {}).get("code") == -32002 else None,
    )


def _auth_methods(change: Any) -> Mutation:
    return result("initialize", lambda value: change(value["authMethods"]))


def _capabilities(change: Any) -> Mutation:
    return result("initialize", lambda value: change(value["agentCapabilities"]))


def _client(params: Body) -> Body:
    found = params.get("clientCapabilities")
    return found if isinstance(found, dict) else {}


TERMINAL = {"type": "terminal", "id": "t", "name": "T", "args": []}

AUTHENTICATION = {
    "method-shape": _auth_methods(lambda methods: methods[0].pop("name") and None),
    "terminal-gated": _auth_methods(lambda methods: methods.append(TERMINAL)),
    "terminal-shape": _auth_methods(lambda methods: methods[-1].update(command="/bin/login")),
    "succeeds": result("authenticate", lambda _: {"ok": True}),
    "unknown-method": answers("authenticate", lambda request: reply(request, {})),
    "required": code(-32000, -32603),
    "opens": answers("authenticate", lambda request: reply(request, {})),
    "logout": result("logout", lambda _: {"bye": True}),
}

INITIALIZE = {
    "answers": result("initialize", drop("protocolVersion")),
    "version-type": result("initialize", put(protocolVersion="1")),
    "version-echo": result("initialize", put(protocolVersion=2)),
    "version-unknown": refuses("initialize", lambda params: params["protocolVersion"] == 9999),
    "agent-info": result("initialize", drop("agentInfo")),
    "agent-info-complete": result("initialize", lambda value: drop("version")(value["agentInfo"])),
    "capabilities": result("initialize", drop("agentCapabilities")),
    "capability-types": _capabilities(lambda found: found["sessionCapabilities"].update(list=True)),
    "first": _before_initialize(lambda wire, body: wire.send(reply(body, {"sessionId": "early"})) or []),
    "after-early-request": _before_initialize(_crash),
    "repeated": _once("initialize", refusal),
    "without-capabilities": refuses("initialize", lambda params: "clientCapabilities" not in params),
    "null-capabilities": refuses("initialize", lambda params: None in _client(params).values()),
    "malformed-capabilities": refuses("initialize", lambda params: _client(params).get("fs") == 3, -32602),
    "meta-ignored": received("initialize", lambda params: params.update(params.get("_meta") or {})),
}
# What it reads from _meta must also come out again.
INITIALIZE["meta-ignored"] = both(INITIALIZE["meta-ignored"], result("initialize", put(protocolVersion=9999)))

CAPABILITIES = {
    "baseline": refuses("session/prompt", code=-32601),
    "unadvertised-refused": answers("session/fork", lambda request: reply(request, {})),
    "without-files": ignores_capabilities(),
    "read-only-files": ignores_capabilities(),
    "write-only-files": ignores_capabilities(),
    "malformed-is-absent": ignores_capabilities(),
    "without-terminal": ignores_capabilities(),
    "without-elicitation": ignores_capabilities(),
    "empty-elicitation": ignores_capabilities(),
    "form-only": ignores_capabilities(),
    "elicitation-fallback": refuses("session/prompt"),
    "without-notices": ignores_capabilities(),
    "without-compaction": ignores_capabilities(),
    "without-boolean-options": ignores_capabilities(),
    "some-combinations": refuses("initialize", lambda params: "terminal" not in _client(params)),
    "other-combinations": refuses("initialize", lambda params: "fs" not in _client(params)),
    "unknown-client-capability": refuses("initialize", lambda params: "telepathy" in _client(params)),
}


def _to_parent(params: Body) -> None:
    folder, _, name = params["path"].rpartition("/")
    params["path"] = f"{folder.rpartition('/')[0]}/{name}"


SESSION = {
    "new": result("session/new", put(sessionId=5)),
    "unique-ids": result("session/new", put(sessionId="always-the-same")),
    "params-missing": code(-32602, -32603),
    "params-array": code(-32602, -32603),
    "null-lists": refuses("session/new", lambda params: params["mcpServers"] is None, -32602),
    "malformed-server": received("session/new", lambda params: params.update(mcpServers=[])),
    "no-secret-in-error": _leaks_params(),
    "response-first": _adds_before_answer("session/new", "available_commands_update", availableCommands=[]),
    "folder": asked("fs/write_text_file", _to_parent),
    "folder-of-each": asked("fs/write_text_file", _to_parent),
    "command-folder": asked("terminal/create", put(cwd="/")),
    "mcp-stdio": refuses("session/new", lambda params: bool(params["mcpServers"])),
    "mcp-connected": received("session/new", put(mcpServers=[])),
    "mcp-http": _capabilities(lambda found: found["mcpCapabilities"].update(http=False)),
    "additional-directories": refuses("session/new", lambda params: "additionalDirectories" in params),
    "meta-ignored": refuses("session/new", lambda params: "_meta" in params),
}

LOAD = {
    "replays": while_loading(lambda each: each["sessionUpdate"] != "user_message_chunk" and None),
    "order": _reversed_history(),
    "response-last": _history_after_answer(),
    "result": result("session/load", lambda _: "loaded"),
    "tool-calls": while_loading(lambda each: each["sessionUpdate"] != "tool_call" and None),
    "no-notices": _adds_before_answer("session/load", "notice", severity="info", title="Again"),
    "usable": _refuses_prompts_after("session/load"),
    "other-directories": refuses("session/load", lambda params: "additionalDirectories" in params),
    "unknown-session": code(-32002, -32603),
}
RESUME = {
    "no-replay": _adds_before_answer(
        "session/resume", "agent_message_chunk", content={"type": "text", "text": "As I said before"}
    ),
    "usable": _refuses_prompts_after("session/resume"),
    "unknown-session": response("session/resume", lambda body: body.get("error", {}).pop("data", None) and None),
}
CLOSE = {
    "result": result("session/close", lambda _: {"closed": True}),
    "cancels": result("session/prompt", put(stopReason="end_turn")),
    "inactive-after": _prompt_of_closed_succeeds(),
    "unknown-session": code(-32002, -32603),
}
LIST = {
    "shape": result("session/list", lambda value: [drop("cwd")(each) for each in value["sessions"]] and None),
    "empty": result("session/list", lambda value: value["sessions"] or put(sessions=None)(value)),
    "filter": received("session/list", drop("cwd")),
    "pages": received("session/list", drop("cursor")),
    "invalid-cursor": received("session/list", drop("cursor")),
    "no-side-effects": _every_second_list_backwards(),
}
DELETE = {
    "result": result("session/delete", lambda _: {"deleted": True}),
    "gone": answers("session/delete", lambda request: reply(request, {})),
    "twice": _once("session/delete", lambda request: refusal(request, -32002)),
}


def _options(change: Any) -> Any:
    return lambda value: change(value["configOptions"]) and None


def _accepts_anything(method: str, value: Any) -> Mutation:
    return response(method, lambda body: reply(body, value) if "error" in body else None)


OPTIONS = {
    "shape": result("session/new", _options(lambda options: options[0].pop("name"))),
    "current-offered": result("session/new", _options(lambda options: options[0].update(currentValue="nothing"))),
    "categories": result("session/new", _options(lambda options: options[1].update(category="colour"))),
    "complete-answer": result("session/set_config_option", _options(lambda options: options.pop())),
    "takes-effect": result(
        "session/set_config_option", _options(lambda options: options[0].update(currentValue="ask"))
    ),
    "boolean": refuses("session/set_config_option", lambda params: params.get("type") == "boolean"),
    "unknown-option": _accepts_anything("session/set_config_option", {"configOptions": [OPTION]}),
    "unknown-value": _accepts_anything("session/set_config_option", {"configOptions": [OPTION]}),
    "unknown-session": code(-32002, -32603),
    "during-turn": _during_turn("session/set_config_option"),
    "complete-update": update("config_option_update", _options(lambda options: options.pop())),
    "mode-in-step": result("session/new", lambda value: value["modes"].update(currentModeId="code")),
}
MODES = {
    "shape": result("session/new", lambda value: value["modes"].update(currentModeId="nothing")),
    "set": result("session/set_mode", lambda _: {"mode": "ask"}),
    "unknown-mode": _accepts_anything("session/set_mode", {}),
    "unknown-session": code(-32002, -32603),
    "during-turn": _during_turn("session/set_mode"),
    "update": update("current_mode_update", lambda each: each.update(modeId=each.pop("currentModeId"))),
}

BY_AREA: dict[str, dict[str, Mutation]] = {
    "authentication": AUTHENTICATION,
    "initialize": INITIALIZE,
    "capabilities": CAPABILITIES,
    "session": SESSION,
    "load": LOAD,
    "resume": RESUME,
    "close": CLOSE,
    "list": LIST,
    "delete": DELETE,
    "options": OPTIONS,
    "modes": MODES,
}

"""A small agent that works, and is odd in one way that its only argument names. Needs the standard library alone.

(none)            a plain agent
only-initialize   answers nothing but initialize
several-lines     writes its messages on several lines
banner            prints a sentence and does not answer
believes          takes every cwd and every option value, and lists them back
own-methods       sends methods of its own, without an underscore
goodbye           prints a sentence when its input ends
runs-anyway       writes a file although permission was rejected
dies              ends when it is prompted
"""

import json
import sys
from pathlib import Path
from typing import Any

Body = dict[str, Any]
ODDITY = (sys.argv[1:] or [""])[0]
SESSIONS: dict[str, object] = {}
OPTION: Body = {
    "id": "model",
    "name": "Model",
    "type": "select",
    "currentValue": "small",
    "options": [{"value": "small", "name": "Small"}, {"value": "large", "name": "Large"}],
}
ASKED: dict[str, Body] = {}


def write(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def send(message: Body) -> None:
    text = json.dumps({"jsonrpc": "2.0", **message}, indent=2 if ODDITY == "several-lines" else None)
    write(text)


def reply(request: Body, result: object) -> None:
    send({"id": request["id"], "result": result})


def refuse(request: Body, code: int, message: str) -> None:
    data = {"sessionId": (request.get("params") or {}).get("sessionId")} if code == -32002 else {}
    send({"id": request["id"], "error": {"code": code, "message": message, "data": data}})


def update(session: str, **members: object) -> None:
    send({"method": "session/update", "params": {"sessionId": session, "update": members}})


def new_session(request: Body) -> None:
    params = request.get("params")
    members = params if isinstance(params, dict) else {}
    cwd = members.get("cwd")
    if ODDITY != "believes" and not (isinstance(cwd, str) and isinstance(members.get("mcpServers"), list)):
        refuse(request, -32602, "Invalid params")
        return
    session = f"s{len(SESSIONS) + 1}"
    SESSIONS[session] = cwd
    reply(request, {"sessionId": session, "configOptions": [OPTION]})


def prompt(request: Body) -> None:
    session, blocks = request["params"]["sessionId"], request["params"]["prompt"]
    if ODDITY == "dies":
        sys.exit(3)
    if ODDITY == "own-methods":
        send({"method": "craft/progress", "params": {}})
        send({"id": "q", "method": "craft/ask", "params": {}})
    text = blocks[0].get("text", "") if blocks else ""
    if text.startswith("ask "):
        path = text.removeprefix("ask ")
        call = {"toolCallId": f"call-{request['id']}", "title": "Write"}
        update(session, sessionUpdate="tool_call", **call)
        kinds = ("allow_once", "reject_once")
        options = [{"optionId": kind, "name": kind, "kind": kind} for kind in kinds]
        ASKED[f"p-{request['id']}"] = {"request": request, "path": path, "session": session, **call}
        params = {"sessionId": session, "toolCall": call, "options": options}
        send({"id": f"p-{request['id']}", "method": "session/request_permission", "params": params})
        return
    update(session, sessionUpdate="agent_message_chunk", content={"type": "text", "text": "pong"})
    if text.startswith("slow"):
        ASKED[session] = {"request": request}
        return
    reply(request, {"stopReason": "end_turn"})


def answered(message: Body) -> None:
    asked = ASKED.pop(str(message["id"]), None)
    if asked is None:
        return
    outcome = (message.get("result") or {}).get("outcome") or {}
    may = outcome.get("optionId") == "allow_once" or ODDITY == "runs-anyway"
    if may:
        Path(asked["path"]).write_text("hello")
    status = "completed" if may else "failed"
    update(asked["session"], sessionUpdate="tool_call_update", toolCallId=asked["toolCallId"], status=status)
    reply(asked["request"], {"stopReason": "end_turn"})


def set_option(request: Body) -> None:
    value = request["params"].get("value")
    if request["params"].get("configId") != "model" or (value not in ("small", "large") and ODDITY != "believes"):
        refuse(request, -32602, "Invalid params")
        return
    OPTION["currentValue"] = value
    reply(request, {"configOptions": [OPTION]})


def serve(message: Body) -> None:
    method = message.get("method")
    params = message.get("params")
    session = params.get("sessionId") if isinstance(params, dict) else None
    if method is None:
        answered(message)
    elif method == "initialize":
        capabilities: Body = {"sessionCapabilities": {"list": {}}}
        info = {"name": "odd", "version": "1"}
        reply(message, {"protocolVersion": 1, "agentCapabilities": capabilities, "agentInfo": info})
    elif ODDITY == "only-initialize":
        return
    elif method == "session/cancel":
        asked = ASKED.pop(str(session), None)
        if asked is not None:
            reply(asked["request"], {"stopReason": "cancelled"})
    elif "id" not in message:
        return
    elif method == "session/new":
        new_session(message)
    elif method == "session/list":
        sessions = [{"sessionId": each, "cwd": cwd} for each, cwd in SESSIONS.items()]
        wanted = (params or {}).get("cwd")
        reply(message, {"sessions": [each for each in sessions if wanted in (None, each["cwd"])]})
    elif method in ("session/prompt", "session/set_config_option"):
        if session not in SESSIONS:
            refuse(message, -32002, "Resource not found")
        else:
            (prompt if method == "session/prompt" else set_option)(message)
    else:
        refuse(message, -32601, "Method not found")


if ODDITY == "banner":
    write("Welcome to Odd Agent 1.0!")
for line in sys.stdin:
    try:
        message = json.loads(line)
    except ValueError:
        continue
    if ODDITY != "banner" and isinstance(message, dict):
        serve(message)
if ODDITY == "goodbye":
    write("Goodbye!")

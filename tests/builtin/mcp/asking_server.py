"""An MCP server of the 2025 protocol that asks its client, in plain Python because that starts fast.

Each tool sends one request or some notifications, and its result has the answer of the client as JSON.
"""

import json
import os
import sys
from typing import Any

FORM = {"type": "object", "properties": {"colour": {"type": "string", "title": "Colour"}}, "required": ["colour"]}
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "roots": ("roots/list", {}),
    "form": ("elicitation/create", {"message": "Which colour?", "requestedSchema": FORM}),
    "nested": (
        "elicitation/create",
        {"message": "What?", "requestedSchema": {"type": "object", "properties": {"a": {"type": "object"}}}},
    ),
    "page": (
        "elicitation/create",
        {"mode": "url", "message": "Please pay", "url": "https://pay.example/1", "elicitationId": "p1"},
    ),
    "sample": (
        "sampling/createMessage",
        {"messages": [{"role": "user", "content": {"type": "text", "text": "say sampled"}}], "maxTokens": 9000},
    ),
}
CAPABILITIES: dict[str, Any] = {"tools": {}, "logging": {}, "resources": {}}
asked: dict[str, dict[str, Any]] = {}
said: list[str] = []


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "method" in message:
            answer(message)
        else:
            call = asked.pop(message["id"])
            if call["params"]["name"] == "page":
                say({"method": "notifications/elicitation/complete", "params": {"elicitationId": "p1"}})
            finish(call, json.dumps(message.get("result", message.get("error"))))


def answer(message: dict[str, Any]) -> None:
    said.append(message["method"])
    match message["method"]:
        case "initialize":
            said.append(json.dumps(sorted(message["params"]["capabilities"])))
            own = {"name": "asking", "version": "1"}
            result = {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "serverInfo": own}
            say({"id": message["id"], "result": result})
        case "tools/list":
            names = [*REQUESTS, "log", "die", "said"]
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
            say({"id": message["id"], "result": {"tools": tools}})
        case "logging/setLevel":
            said.append(message["params"]["level"])
            say({"id": message["id"], "result": {}})
        case "resources/read":
            pass  # it never answers
        case "tools/call":
            call(message)
        case _ if "id" in message:
            say({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})


def call(message: dict[str, Any]) -> None:
    name = message["params"]["name"]
    if name == "die":
        os.kill(os.getpid(), 9)
    elif name == "said":
        finish(message, " ".join(said))
    elif name == "log":
        for level, count in (("info", 1), ("warning", 20)):
            for number in range(count):
                data = f"{level} {number}"
                say({"method": "notifications/message", "params": {"level": level, "data": data}})
        finish(message, "logged")
    else:
        method, params = REQUESTS[name]
        id = f"ask-{len(said)}"
        asked[id] = message
        say({"id": id, "method": method, "params": params})


def finish(call: dict[str, Any], text: str) -> None:
    say({"id": call["id"], "result": {"content": [{"type": "text", "text": text}]}})


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


main()

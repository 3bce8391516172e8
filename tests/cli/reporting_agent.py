"""An agent without any library whose answer is what it was given: arguments, capabilities, and its session.

`REPORTING_CAPABILITIES` in the environment holds its `agentCapabilities`. Like one real agent it lists sessions only if
it is asked for a folder.
"""

import json
import os
import sys
from typing import Any

SEEN: dict[str, Any] = {"argv": sys.argv[1:]}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    SEEN[method] = params
    if method == "initialize":
        capabilities = json.loads(os.environ.get("REPORTING_CAPABILITIES", "{}"))
        return {"protocolVersion": 1, "agentCapabilities": capabilities}
    if method == "session/list":
        cwd = params.get("cwd")
        return {"sessions": [{"sessionId": "kept", "cwd": cwd}] if cwd else []}
    if method == "session/prompt":
        content = {"type": "text", "text": json.dumps(SEEN)}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        send({"method": "session/update", "params": {"sessionId": "s", "update": update}})
        return {"stopReason": "end_turn"}
    return {"sessionId": "s"} if method == "session/new" else {}


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


for line in sys.stdin:
    received = json.loads(line)
    if "id" in received and "method" in received:
        send({"id": received["id"], "result": answer(received["method"], received.get("params", {}))})

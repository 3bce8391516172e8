"""An agent that appends the environment of each of its processes to the file of its first argument, when prompted or
logged in to.

It can load sessions. What it writes has nothing of the environment, but for a prompt with `repeat` or `die`.
"""

import json
import os
import sys

METHODS = [{"id": "any", "name": "Any"}]


def send(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


for line in sys.stdin:
    call = json.loads(line)
    method, params = call.get("method"), call.get("params") or {}
    result: dict[str, object] = {}
    if method == "initialize":
        result = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}, "authMethods": METHODS}
    if method == "session/new":
        result = {"sessionId": f"s{os.getpid()}"}
    if method in ("session/prompt", "authenticate"):
        with open(sys.argv[1], "a", encoding="ascii") as file:
            file.write(json.dumps({"pid": os.getpid(), **os.environ}) + "\n")
    if method == "session/prompt":
        key = os.environ.get("OPENAI_API_KEY", "none")
        content = {"type": "text", "text": f"noted {key}" if "repeat" in line else "noted"}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        send({"method": "session/update", "params": {"sessionId": params["sessionId"], "update": update}})
        if "die" in line:
            sys.exit(f"refused: {key}")
        result = {"stopReason": "end_turn"}
    if "id" in call and method is not None:
        send({"id": call["id"], "result": result})

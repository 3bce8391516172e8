"""The least a program has to do for one turn: `python once.py PROMPT AGENT_COMMAND...` prints what the agent says.

Blocking pipes and the standard library, no errors handled, nothing checked: what `dragoman exec` is held against.
"""

import json
import subprocess
import sys
from typing import Any

process = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
assert process.stdin is not None
assert process.stdout is not None
texts: list[str] = []


def ask(number: int, method: str, params: dict[str, Any]) -> Any:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode())
    process.stdin.write(b"\n")
    process.stdin.flush()
    for line in process.stdout:
        message = json.loads(line)
        if message.get("id") == number and "method" not in message:
            return message["result"]
        update = message.get("params", {}).get("update", {})
        if update.get("sessionUpdate") == "agent_message_chunk":
            texts.append(update["content"]["text"])
    raise SystemExit("the agent ended without an answer")


ask(0, "initialize", {"protocolVersion": 1, "clientCapabilities": {}})
session_id = ask(1, "session/new", {"cwd": "/tmp", "mcpServers": []})["sessionId"]
ask(2, "session/prompt", {"sessionId": session_id, "prompt": [{"type": "text", "text": sys.argv[1]}]})
sys.stdout.write("".join(texts) + "\n")
process.stdin.close()
process.wait()

"""An MCP server of the time before the 2026 revision, in plain Python because that starts fast: `old_server.py WAY`.

The ways: `fine`; `chatter` prints lines that are not messages; `mute` never answers; `deaf FILE` does not answer about
its log; `stubborn` is mute, ignores signals and has a child that ignores them too; `broken` ends at once; `crash FILE`
dies in its first call, and is fine when it is started again; `crash-for-good FILE` does not start a second time.
"""

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

way = sys.argv[1]
tools = ["act"]


def main() -> None:
    if way == "broken":
        sys.exit("no key was given")
    if way == "stubborn":
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        child = subprocess.Popen([sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"], stdout=-1)
        assert child.stdout is not None
        child.stdout.read(1)
        with open(sys.argv[2], "w") as file:
            file.write(f"{os.getpid()} {child.pid}")
        while True:
            time.sleep(600)
    if way == "crash-for-good" and os.path.exists(sys.argv[2]):
        sys.exit("the key was taken away")
    if way == "chatter":
        print("Server ready!\n\n{not json\n[]", flush=True)  # noqa: T201
    for line in sys.stdin:
        if way != "mute":
            answer(json.loads(line))


def answer(message: dict[str, Any]) -> None:
    match message["method"]:
        case "initialize":
            info = {"name": "old", "version": "1"}
            capabilities: dict[str, Any] = {"tools": {"listChanged": True}}
            if way == "deaf":
                capabilities["logging"] = {}
            reply(message, {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": info})
        case "tools/list":
            reply(message, {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in tools]})
        case "tools/call":
            call(message)
        case "logging/setLevel" if way == "deaf":
            with open(sys.argv[2], "w") as file:
                file.write(str(os.getpid()))
        case _ if "id" in message:
            say({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})


def call(message: dict[str, Any]) -> None:
    if way.startswith("crash") and not os.path.exists(sys.argv[2]):
        open(sys.argv[2], "w").close()
        sys.exit("crashed")
    if message["params"]["name"] == "refuse":
        say({"id": message["id"], "error": {"code": -32602, "message": "not today"}})
        return
    if message["params"].get("arguments", {}).get("grow"):
        tools.append("refuse")
        say({"method": "notifications/tools/list_changed"})
    text = f"acted as {os.getpid()}" + "x" * message["params"].get("arguments", {}).get("size", 0)
    reply(message, {"content": [{"type": "text", "text": text}]})


def reply(message: dict[str, Any], result: dict[str, Any]) -> None:
    say({"id": message["id"], "result": result})


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


main()

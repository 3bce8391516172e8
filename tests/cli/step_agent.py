"""An agent that plays steps from a JSON file: `{"tries": [[step, ...], ...], "info": {...}, "session": {...}}`.

Each process plays the next try, the last one again and again; with `"turns": [[step, ...], ...]` its prompts play these
first, one after the other. Plain Python without the library, so that it starts fast.
"""

import json
import os
import sys
from typing import Any

SCRIPT = sys.argv[1]
NEXT_ID = 1000


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def receive() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    message: dict[str, Any] = json.loads(line)
    return message


def update(members: dict[str, Any]) -> None:
    send({"method": "session/update", "params": {"sessionId": "s", "update": members}})


def say(text: str) -> None:
    update({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})


def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Send a request; return the members of its answer."""
    global NEXT_ID
    NEXT_ID += 1
    send({"id": NEXT_ID, "method": method, "params": {"sessionId": "s", **params}})
    while True:
        message = receive()
        if message.get("id") == NEXT_ID and "method" not in message:
            return message


def act(name: str, *values: str) -> None:
    """Do something on the machine: by itself, or with a terminal of the client, to its end."""
    match name:
        case "write":
            with open(values[0], "w") as file:
                file.write(values[1])
        case "remove":
            os.unlink(values[0])
        case "run":
            os.system(values[0])
        case "command":
            made = ask("terminal/create", {"command": values[0], "args": values[1:]})
            ask("terminal/wait_for_exit", {"terminalId": made.get("result", {}).get("terminalId", "")})


def play(steps: list[Any]) -> dict[str, Any]:
    """Play one turn; return the members of its answer."""
    for name, *values in steps:
        match name:
            case "say":
                say(values[0])
            case "update":
                update(values[0])
            case "stderr":
                sys.stderr.write(values[0])
                sys.stderr.flush()
            case "ask":
                ask(*values)
            case "write" | "remove" | "run" | "command":
                act(name, *values)
            case "flood":
                for _ in range(values[0]):
                    say(values[1])
            case "await":
                while receive().get("method") != values[0]:
                    pass
            case "exit":
                os._exit(values[0])
            case "error":
                return {"error": values[0]}
            case "answer":
                return {"result": values[0]}
    return {"result": {"stopReason": "end_turn"}}


def next_try(tries: list[Any]) -> list[Any]:
    """Count this process, and return its steps."""
    try:
        with open(f"{SCRIPT}.count", "a+") as counter:
            counter.seek(0)
            number = len(counter.read())
            counter.write(".")
    except OSError:  # in a sandbox, where no test starts it again
        number = 0
    steps: list[Any] = tries[min(number, len(tries) - 1)]
    return steps


def main() -> None:
    with open(SCRIPT) as file:
        script = json.load(file)
    steps = next_try(script["tries"])
    turns = list(script.get("turns", ()))
    while True:
        message = receive()
        match message.get("method"):
            case "initialize" if script.get("never") == "initialize":
                continue
            case "initialize":
                info = {"agentInfo": script["info"]} if "info" in script else {}
                answer = {"result": {"protocolVersion": 1, "agentCapabilities": script.get("capabilities", {}), **info}}
            case "session/new" if script.get("never") == "session/new":
                continue
            case "session/new":
                answer = {"result": {"sessionId": "s", **script.get("session", {})}}
            case "session/prompt":
                answer = play(turns.pop(0) if turns else steps)
            case _:
                answer = {"error": {"code": -32601, "message": "Method not found"}}
        if "id" in message:
            send({"id": message["id"], **answer})


if __name__ == "__main__":
    main()

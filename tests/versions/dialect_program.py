"""An agent of the dialect 2025.1, written from its inventory, with the habits of its one public implementation.

It reads its next line only when a prompt is answered, so that a cancel has no effect during a turn; with `--overtake`
the result of a prompt comes before its last updates. The words of a prompt say what happens: `say TEXT`, `think TEXT`,
`read PATH`, `write PATH TEXT`, `run COMMAND`, `plan A B`, `tool`, `fail`.
"""

from __future__ import annotations

import json
import sys
from itertools import count
from typing import Any


class DialectAgent:
    """Serves stdin and stdout."""

    def __init__(self, *, overtakes: bool) -> None:
        self.overtakes = overtakes
        self.is_ready = False
        self.sessions: set[str] = set()
        self.folder = ""
        self.ids = count(1)
        self.held: list[dict[str, Any]] = []

    def run(self) -> None:
        while line := sys.stdin.readline():
            message = json.loads(line)
            if "method" not in message:
                continue
            result, error = self.handle(message["method"], message.get("params") or {})
            if "id" in message:
                self.write({"id": message["id"], **({"error": error} if error else {"result": result})})
            for update in self.held:  # what the result has overtaken
                self.write(update)
            self.held = []

    def handle(self, method: str, params: dict[str, Any]) -> tuple[Any, dict[str, Any] | None]:
        if method == "initialize":
            for name in ("client_info", "capabilities", "working_directory"):
                if name not in params:
                    return None, {"code": -32602, "message": f"missing {name}"}
            self.is_ready, self.folder = True, params["working_directory"]
            about = {"name": "reference", "version": "1"}
            can = {"streaming": True, "audio": False, "image": True, "supported_modes": ["agent", "ask"]}
            return {"agent_info": about, "capabilities": can, "instructions": "Be brief."}, None
        if not self.is_ready:
            return None, {"code": -32003, "message": "not initialized"}
        return self.handle_ready(method, params)

    def handle_ready(self, method: str, params: dict[str, Any]) -> tuple[Any, dict[str, Any] | None]:
        if method == "authenticate":
            return {"success": params.get("token") == "right"}, None
        if method == "session/new":
            self.sessions.add(params["session_id"])
            return {"session_id": params["session_id"]}, None
        if method == "session/load":
            known = params["session_id"] in self.sessions
            return {"session_id": params["session_id"], "loaded": known}, None
        if method == "session/prompt":
            if params["session_id"] not in self.sessions:
                return None, {"code": -32001, "message": "no such session"}
            return self.turn(params["session_id"], params["content"])
        if method == "session/cancel":
            return None, None
        return None, {"code": -32601, "message": "no such method"}

    def turn(self, session: str, content: list[dict[str, Any]]) -> tuple[Any, dict[str, Any] | None]:
        text = " ".join(block.get("text", f"[{block['type']}]") for block in content)
        for step in text.split(";"):
            word, _, rest = step.strip().partition(" ")
            if word == "fail":
                return None, {"code": -32603, "message": "the model failed"}
            self.step(session, word, rest)
        self.update(session, "done", None)
        return {"status": "ok"}, None

    def step(self, session: str, word: str, rest: str) -> None:
        if word == "say":
            self.update(session, "agent_message_chunk", {"text": rest})
        elif word == "think":
            self.update(session, "agent_thought_chunk", {"text": rest})
        elif word == "plan":
            names = enumerate(rest.split(), 1)
            steps = [{"id": n, "description": name, "status": "pending"} for n, name in names]
            self.update(session, "plan", {"steps": steps})
        elif word in ("read", "write", "run"):
            self.use(session, word, rest)

    def use(self, session: str, word: str, rest: str) -> None:
        call = f"call-{next(self.ids)}"
        path, _, text = rest.partition(" ")
        arguments = {"command": rest} if word == "run" else {"path": path}
        name = {"read": "read_file", "write": "write_file", "run": "run_command"}[word]
        self.update(session, "tool_call", {"id": call, "name": name, "arguments": arguments})
        if word == "read":
            answer = self.ask("fs/read_text_file", {"path": path})
            shown = answer.get("result", {}).get("content", "")
        elif word == "write":
            answer = self.ask("fs/write_text_file", {"path": path, "content": text})
            shown = "written"
        else:
            answer = self.ask("terminal/create", {"cwd": self.folder, "command": rest})
            terminal = answer.get("result", {}).get("terminal_id")
            ended = {} if terminal is None else self.ask("terminal/wait_for_exit", {"terminal_id": terminal})
            shown = ended.get("result", {}).get("output", "")
        data: dict[str, Any] = {"id": call, "status": "completed", "result": {"content": shown}}
        if "error" in answer:
            data |= {"status": "failed", "error": f"{answer['error']['code']}"}
        self.update(session, "tool_call_update", data)

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Ask the client and read until it answers; everything else that comes is too early and is lost."""
        request = f"agent-{next(self.ids)}"
        self.write({"id": request, "method": method, "params": params})
        while line := sys.stdin.readline():
            message: dict[str, Any] = json.loads(line)
            if message.get("id") == request and "method" not in message:
                return message
        sys.exit(0)

    def update(self, session: str, kind: str, data: dict[str, Any] | None) -> None:
        params = {"session_id": session, "type": kind, **({} if data is None else {"data": data})}
        frame = {"method": "session/update", "params": params}
        if self.overtakes and kind in ("agent_message_chunk", "done"):
            self.held.append(frame)
        else:
            self.write(frame)

    @staticmethod
    def write(frame: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **frame}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    DialectAgent(overtakes="--overtake" in sys.argv).run()

"""An agent of version 2 without any library. VERSION2_MUTANT names one thing that it does wrong.

The words of a prompt say what happens: slow (speaks, then works until it is cancelled), ask (a permission request),
run (a terminal), and anything else (an answer).
"""

from __future__ import annotations

import json
import os
import select
import sys
from typing import Any

MUTANT = os.environ.get("VERSION2_MUTANT", "")
OPTION = {
    "configId": "mode",
    "name": "Mode",
    "category": "mode",
    "type": "select",
    "currentValue": "ask",
    "options": [{"value": "ask", "name": "Ask"}, {"value": "code", "name": "Code"}],
}


class Refused(Exception):
    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, **({} if data is None else {"data": data})}


class Agent:
    def __init__(self) -> None:
        self.is_ready = False
        self.count = 0
        self.sessions: dict[str, dict[str, Any]] = {}
        self.slow: dict[str, str] = {}  # sessions that work, with the id of their reply
        self.asked: dict[str, str] = {}
        self.partial = b""

    def send(self, **message: Any) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()

    def update(self, session_id: str, kind: str, /, **members: Any) -> None:
        made = {"sessionUpdate": kind, **members}
        if "message" in kind:
            self.sessions[session_id]["history"].append(made)
        self.send(method="session/update", params={"sessionId": session_id, "update": made})

    def state(self, session_id: str, name: str, **members: Any) -> None:
        self.update(session_id, "state_update", state=name, **members)

    def say(self, session_id: str, text: str) -> None:
        self.count += 1
        content = {"type": "text", "text": text}
        self.update(session_id, "agent_message_chunk", messageId=f"a{self.count}", content=content)

    def initialize(self, params: dict[str, Any]) -> Any:
        version: Any = params.get("protocolVersion")
        is_version = isinstance(version, int) and not isinstance(version, bool) and 0 <= version <= 65535
        if not is_version and MUTANT != "any-version":
            raise Refused(-32602, "protocolVersion is not a version")
        if is_version and version < 2:
            raise Refused(
                -32602 if MUTANT == "low-version" else -32022, "too low", {"requested": version, "supported": [2]}
            )
        if "info" not in params and MUTANT != "no-info":
            raise Refused(-32602, "info is missing")
        self.is_ready = True
        answered = version if MUTANT == "echoes-version" else 2
        info = {"name": "version2", "version": "1"}
        capabilities: dict[str, Any] = {"session": {"prompt": {}, "mcp": {"stdio": {}}}}
        login = [{"type": "agent", "methodId": "key", "name": "Key"}]
        return {"protocolVersion": answered, "info": info, "capabilities": capabilities, "authMethods": login}

    def serve(self, method: str, params: dict[str, Any], request_id: Any) -> Any:
        if method == "initialize":
            return self.initialize(params)
        if not self.is_ready and MUTANT != "too-early":
            raise Refused(-32600, "initialize comes first")
        free = {
            "auth/login": self.login,
            "auth/logout": lambda params: {},
            "session/new": self.new,
            "session/list": self.list,
            "tool_call/cancel": self.cancel_one,
            "terminal/cancel": self.cancel_one,
        }
        if method in free:
            return free[method](params)
        bound = {
            "session/resume": self.resume,
            "session/close": self.close,
            "session/set_config_option": self.set_option,
        }
        if method not in (*bound, "session/prompt"):
            raise Refused(-32602 if MUTANT == "unknown-method" else -32601, "no such method")
        session_id = params.get("sessionId", "")
        if session_id not in self.sessions:
            raise Refused(-32603 if MUTANT == "unknown-session" else -32002, "no such session")
        if method == "session/prompt":
            return self.prompt(session_id, params["prompt"][0]["text"], request_id)
        return bound[method](session_id, params)

    def login(self, params: dict[str, Any]) -> Any:
        if params.get("methodId") != "key":
            raise Refused(-32603 if MUTANT == "login-error" else -32602, "no such login")
        return {}

    def new(self, params: dict[str, Any]) -> Any:
        self.count += 1
        session_id = f"s{self.count}"
        self.sessions[session_id] = {"cwd": params["cwd"], "history": [], "is_open": True}
        return {"sessionId": session_id, "configOptions": [OPTION]}

    def list(self, params: dict[str, Any]) -> Any:
        if MUTANT == "no-list":
            raise Refused(-32601, "no such method")
        return {"sessions": [{"sessionId": id, "cwd": each["cwd"]} for id, each in self.sessions.items()]}

    def cancel_one(self, params: dict[str, Any]) -> Any:
        if MUTANT == "cancels-anything":
            return {}
        raise Refused(-32602, "unknown, or it cannot be cancelled")

    def set_option(self, session_id: str, params: dict[str, Any]) -> Any:
        if params["configId"] != "mode" and MUTANT != "any-option":
            raise Refused(-32602, "no such option")
        return {"configOptions": [OPTION]}

    def close(self, session_id: str, params: dict[str, Any]) -> Any:
        self.cancel(session_id, is_close=True)
        self.sessions[session_id]["is_open"] = False
        return {}

    def resume(self, session_id: str, params: dict[str, Any]) -> Any:
        replay = params.get("replayFrom")
        if replay and replay["type"] != "start" and MUTANT != "any-cursor":
            raise Refused(-32602, "no such cursor")
        self.sessions[session_id]["is_open"] = True
        history = [] if MUTANT == "no-replay" else list(self.sessions[session_id]["history"])
        for each in history if replay or MUTANT == "always-replays" else ():
            self.send(method="session/update", params={"sessionId": session_id, "update": each})
        if MUTANT != "no-snapshot":
            self.state(session_id, "idle")
        return {"configOptions": [OPTION]}

    def prompt(self, session_id: str, words: str, request_id: Any) -> None:
        self.count += 1
        message_id = "u" if MUTANT == "one-message-id" else f"u{self.count}"
        if MUTANT != "not-shown":
            content = [{"type": "text", "text": words}]
            self.update(session_id, "user_message", messageId=message_id, content=content)
        self.send(id=request_id, result={"messageId": message_id})
        if MUTANT != "never-running":
            self.state(session_id, "running")
        if words == "slow":
            self.say(session_id, "working")
            self.slow[session_id] = message_id
        elif words == "ask":
            self.ask(session_id)
        else:
            self.run(session_id) if words == "run" else self.say(session_id, f"You wrote: {words}")
            self.state(session_id, "idle", **({} if MUTANT == "no-reason" else {"stopReason": "end_turn"}))

    def run(self, session_id: str) -> None:
        if MUTANT != "unknown-terminal":
            self.update(session_id, "terminal_update", terminalId="t", command="make", cwd="/w")
        content = [{"type": "terminal", "terminalId": "t"}]
        self.update(session_id, "tool_call_update", toolCallId="c", title="make", kind="execute", content=content)
        data = "not base64!" if MUTANT == "not-base64" else "YnVpbHQK"
        self.update(session_id, "terminal_output_chunk", terminalId="t", data=data)
        if MUTANT != "unknown-terminal":
            self.update(session_id, "terminal_update", terminalId="t", exitStatus={"exitCode": 0})
        self.update(session_id, "tool_call_update", toolCallId="c", status="completed")

    def ask(self, session_id: str) -> None:
        self.state(session_id, "requires_action")
        options = [{"optionId": "yes", "name": "Allow", "kind": "allow_once"}]
        subject = {"type": "command", "command": "make", "cwd": self.sessions[session_id]["cwd"]}
        params = {"sessionId": session_id, "title": "Run make?", "subject": subject}
        self.asked[f"ask-{self.count}"] = session_id
        options = [] if MUTANT == "no-options" else options
        self.send(id=f"ask-{self.count}", method="session/request_permission", params={**params, "options": options})

    def cancel(self, session_id: str, *, is_close: bool = False) -> None:
        if self.slow.pop(session_id, None) is not None and not (is_close and MUTANT == "close-silent"):
            self.state(session_id, "idle", stopReason="end_turn" if MUTANT == "cancel-reason" else "cancelled")

    def take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            self.send(id=None, error={"code": -32700, "message": "not JSON"})
            return
        if "method" not in message:
            session_id = self.asked.pop(message["id"], None)
            if session_id is not None:
                self.state(session_id, "running")
                self.say(session_id, f"outcome {message.get('result', {}).get('outcome', {}).get('outcome')}")
                self.state(session_id, "idle", stopReason="end_turn")
            return
        params = message.get("params") or {}
        if "id" not in message:
            if message["method"] == "session/cancel":
                self.cancel(params.get("sessionId", ""))
            return
        try:
            result = self.serve(message["method"], params, message["id"])
        except Refused as refused:
            self.send(id=message["id"], error=refused.error)
        else:
            if message["method"] != "session/prompt":
                self.send(id=message["id"], result=result)
            if message["method"] == "session/close" and MUTANT == "talks-after-close":
                self.say(params["sessionId"], "one more thing")

    def main(self) -> None:
        while True:
            select.select([0], [], [])
            data = os.read(0, 65536)
            if not data:
                return
            *lines, self.partial = (self.partial + data).split(b"\n")
            for line in filter(None, lines):
                self.take(line)


if __name__ == "__main__":
    Agent().main()

"""A program that speaks like `claude` on stdin and stdout, written from recordings of it. It needs no model.

The first word of a prompt says what it does; anything else is answered with a greeting in three pieces:

    THINK  EDIT path  RUN command...  RETRY  AGENT  TODO  TASKS  QUESTION  PLAN  COMMAND  FAIL  LOGIN
    WAIT       begins an answer and goes on when it is interrupted, never otherwise
    DEAF       the same, and ignores interrupts
    HOLD       begins a call, and ends when another message of the user was added
    BACKGROUND starts work that ends after the turn, and reports it in a turn of its own
    BEHIND     the prompt waits behind a turn that the program started by itself
    ODD        messages that nobody knows, and lines that are not JSON
    CRASH      ends in the middle of an answer, or later, after it
    SAW        says which content, MCP servers and arguments it was given

Sessions are kept as the real program keeps them.
"""

import json
import os
import re
import shutil
import sys
import uuid
from typing import Any

ARGUMENTS = sys.argv[1:]
MODELS: list[dict[str, Any]] = [
    {"value": "default", "resolvedModel": "big-1", "displayName": "Default", "supportedEffortLevels": ["low", "high"]},
    {"value": "small", "resolvedModel": "small-1", "displayName": "Small", "description": "Fast"},
]


def option(name: str) -> str | None:
    return ARGUMENTS[ARGUMENTS.index(name) + 1] if name in ARGUMENTS else None


class Interrupted(Exception):
    """The turn is over, because it was interrupted."""


class Claude:
    def __init__(self) -> None:
        folder = re.sub(r"[^A-Za-z0-9]", "-", os.getcwd())
        self.folder = os.path.join(os.environ["CLAUDE_CONFIG_DIR"], "projects", folder)
        os.makedirs(self.folder, exist_ok=True)
        self.session = option("--session-id") or option("--resume") or str(uuid.uuid4())
        self.mode = "default"
        self.model = "default"
        self.effort = "low"
        self.last: str | None = None
        self.call_id = ""
        self.added: tuple[str, ...] = ()
        self.count = 0
        self.later: list[Any] = []
        """Messages that arrived while an answer was awaited."""

    # The wire

    def send(self, **message: Any) -> None:
        message.setdefault("session_id", self.session)
        message.setdefault("uuid", str(uuid.uuid4()))
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    def receive(self) -> Any:
        line = sys.stdin.readline()
        if not line:
            sys.exit(0)
        return json.loads(line)

    def serve(self) -> None:
        source = option("--resume")
        if source is not None:
            path = self.path(source)
            if not os.path.exists(path):
                self.send(
                    type="result",
                    subtype="error_during_execution",
                    is_error=True,
                    errors=[f"No conversation found with session ID: {source}"],
                )
                sys.exit(1)
            if source != self.session:
                shutil.copy(path, self.path(self.session))
            with open(self.path(self.session)) as file:
                for line in file:
                    self.last = json.loads(line).get("uuid", self.last)
        while True:
            message = self.later.pop(0) if self.later else self.receive()
            if message["type"] == "user":
                self.turn(message)
            elif message["type"] == "crash":
                sys.exit(1)
            else:
                self.control(message)

    def path(self, session: Any) -> str:
        return os.path.join(self.folder, f"{session}.jsonl")

    def control(self, message: Any) -> None:
        """Answer a request; interrupts raise Interrupted where a turn runs."""
        if message["type"] != "control_request":
            return
        answer: dict[str, Any] = {}
        request, kind = message["request"], message["request"]["subtype"]
        if kind == "initialize":
            answer = {
                "commands": [{"name": "context", "description": "Show the context", "argumentHint": ""}],
                "models": MODELS,
                "current_permission_mode": self.mode,
                "claude_code_version": os.environ.get("FAKE_CLAUDE_VERSION", "2.1.325"),
            }
        elif kind == "get_settings":
            answer = {"effective": {}, "applied": {"model": "big-1", "effort": self.effort}}
        elif kind == "set_permission_mode":
            if request["mode"] == "dontAsk":
                self.reply(message, subtype="error", error="this mode is switched off here", error_code="invalid_mode")
                return
            self.mode = request["mode"]
            self.send(type="system", subtype="status", status=None, permissionMode=self.mode)
        elif kind == "set_model":
            self.model = request["model"]
            self.print("Set model")
        elif kind == "apply_flag_settings":
            self.effort = request["settings"]["effortLevel"]
        elif kind == "interrupt":
            answer = {"still_queued": []}
        else:
            self.reply(message, subtype="error", error=f"Unsupported control request subtype: {kind}")
            return
        self.reply(message, subtype="success", response=answer)

    def reply(self, message: Any, **response: Any) -> None:
        self.send(type="control_response", response={"request_id": message["request_id"], **response})

    def print(self, text: str) -> None:
        """What a slash command prints."""
        content = f"<local-command-stdout>{text}</local-command-stdout>"
        self.send(type="user", message={"role": "user", "content": content}, isReplay=True)

    def ask(self, call: Any, name: Any, given: Any, **more: Any) -> Any:
        """Ask for permission, and return the answer; an interrupt withdraws the question."""
        request_id = str(uuid.uuid4())
        self.send(
            type="control_request",
            request_id=request_id,
            request={"subtype": "can_use_tool", "tool_name": name, "input": given, "tool_use_id": call, **more},
        )
        while True:
            message = self.receive()
            if message["type"] == "control_response" and message["response"]["request_id"] == request_id:
                return message["response"]["response"]
            if message["type"] == "user":
                self.later.append(message)
                self.send(type="command_lifecycle", command_uuid=message["uuid"], state="queued")
                continue
            if message.get("request", {}).get("subtype") == "interrupt":
                self.send(type="control_cancel_request", request_id=request_id)
                self.control(message)
                self.result(call, "The user doesn't want to proceed", is_error=True, kind="user-rejected")
                raise Interrupted
            self.control(message)

    def wait(self) -> None:
        """Wait for an interrupt."""
        while True:
            message = self.receive()
            self.control(message)
            if message.get("request", {}).get("subtype") == "interrupt":
                raise Interrupted

    # Turns

    def turn(self, message: Any) -> None:
        content, own = message["message"]["content"], message["uuid"]
        text = content if isinstance(content, str) else "".join(b.get("text", "") for b in content)
        word, _, rest = text.partition(" ")
        self.send(type="command_lifecycle", command_uuid=own, state="queued")
        if word == "BEHIND":
            self.by_itself("I looked after something.")
        self.send(type="command_lifecycle", command_uuid=own, state="started")
        self.init()
        self.store("user", {"role": "user", "content": content}, uuid=own)
        ending = {"subtype": "success", "is_error": False, "terminal_reason": "completed", "stop_reason": "end_turn"}
        try:
            getattr(self, f"do_{word.lower()}", self.do_greet)(rest, content)
        except Interrupted:
            self.send(
                type="user",
                message={"role": "user", "content": [{"type": "text", "text": "[Request interrupted by user]"}]},
            )
            ending = {
                "subtype": "error_during_execution",
                "is_error": True,
                "terminal_reason": "aborted_streaming",
                "errors": ["[ede_diagnostic]"],
            }
        except ValueError as failure:
            self.assistant({"type": "text", "text": str(failure)}, is_api_error_message=True)
            ending = {"subtype": "success", "is_error": True, "terminal_reason": "api_error", "result": str(failure)}
        self.count += 1
        self.send(
            type="result",
            user_message_uuids=[own, *self.taken()],
            total_cost_usd=self.count / 100,
            modelUsage={"big-1": {"contextWindow": 1000}},
            **ending,
        )
        self.send(type="command_lifecycle", command_uuid=own, state="completed")
        if word == "BACKGROUND":
            self.send(
                type="system",
                subtype="task_notification",
                task_id="b1",
                tool_use_id=self.call_id,
                status="completed",
                summary="The work is done",
            )
            self.by_itself("The work in the background is done.")

    def taken(self) -> Any:
        added, self.added = self.added, ()
        return added

    def init(self) -> None:
        resolved = next(each["resolvedModel"] for each in MODELS if each["value"] == self.model)
        self.send(type="system", subtype="init", cwd=os.getcwd(), model=resolved, permissionMode=self.mode, tools=[])
        self.send(type="system", subtype="status", status="requesting")

    def by_itself(self, text: Any) -> None:
        """A turn that no prompt started."""
        self.init()
        self.stream("text", text)
        self.send(
            type="result",
            subtype="success",
            is_error=False,
            origin={"kind": "task-notification"},
            terminal_reason="completed",
            stop_reason="end_turn",
        )

    def stream(self, kind: Any, *pieces: Any, is_open: Any = False) -> None:
        """A message with one text or thought, as events and then whole."""
        message = {"id": f"msg_{uuid.uuid4().hex}", "role": "assistant", "content": []}
        member = "thinking" if kind == "thinking" else "text"
        self.event(type="message_start", message=message)
        self.event(type="content_block_start", index=0, content_block={"type": kind, member: ""})
        for piece in pieces:
            self.event(type="content_block_delta", index=0, delta={"type": f"{member}_delta", member: piece})
        if is_open:
            return
        self.assistant({"type": kind, member: "".join(pieces)}, id=message["id"])
        self.event(type="content_block_stop", index=0)
        usage = {"input_tokens": 90, "output_tokens": 10, "cache_read_input_tokens": 20}
        self.event(type="message_delta", delta={"stop_reason": "end_turn"}, usage=usage)
        self.event(type="message_stop")

    def event(self, **event: Any) -> None:
        self.send(type="stream_event", event=event, parent_tool_use_id=None)

    def assistant(self, block: Any, id: Any = None, parent: Any = None, **more: Any) -> None:
        message = {"id": id or str(uuid.uuid4()), "role": "assistant", "content": [block]}
        self.send(type="assistant", message=message, parent_tool_use_id=parent, **more)
        if parent is None:
            flag = {"isApiErrorMessage": True} if more.get("is_api_error_message") else {}
            self.store("assistant", message, **flag)

    def call(self, name: Any, given: Any, parent: Any = None) -> str:
        self.call_id = f"toolu_{uuid.uuid4().hex}"
        self.assistant({"type": "tool_use", "id": self.call_id, "name": name, "input": given}, parent=parent)
        return self.call_id

    def result(
        self, call: str, text: str, structured: Any = None, is_error: bool = False, kind: Any = None, parent: Any = None
    ) -> None:
        block = {"type": "tool_result", "tool_use_id": call, "content": text, "is_error": is_error}
        meta = [{"id": call, "non_execution_kind": kind}] if kind else []
        message = {"role": "user", "content": [block]}
        self.send(
            type="user", message=message, tool_use_result=structured, tool_result_meta=meta, parent_tool_use_id=parent
        )
        if parent is None:
            self.store("user", message, toolUseResult=structured, **({"toolDenialKind": kind} if kind else {}))

    def permitted(self, call: Any, name: Any, given: Any, run: Any, **more: Any) -> Any:
        """Run a call if the user permits it."""
        answer = self.ask(call, name, given, **more)
        for update in answer.get("updatedPermissions", ()):
            if update["type"] == "setMode":
                self.mode = update["mode"]
                self.send(type="system", subtype="status", status=None, permissionMode=self.mode)
        if answer["behavior"] == "allow":
            self.result(call, *run(answer["updatedInput"]))
        else:
            self.result(call, answer["message"], is_error=True, kind="user-rejected")
        return answer

    def store(self, kind: Any, message: Any, **more: Any) -> None:
        line = {
            "type": kind,
            "message": message,
            "uuid": str(uuid.uuid4()),
            "parentUuid": self.last,
            "isSidechain": False,
            "cwd": os.getcwd(),
            "sessionId": self.session,
            **more,
        }
        self.last = line["uuid"]
        with open(self.path(self.session), "a") as file:
            file.write(json.dumps(line) + "\n")

    # What prompts ask for

    def do_greet(self, rest: Any, content: Any) -> None:
        self.stream("text", "Hello ", "from ", "Claude.")

    def do_think(self, rest: Any, content: Any) -> None:
        self.stream("thinking", "Let me ", "think.")
        self.stream("text", "Thought about it.")

    def do_edit(self, path: Any, content: Any) -> None:
        given = {"file_path": path, "old_string": "alpha", "new_string": "omega"}

        def run(used: Any) -> Any:
            with open(path) as file:
                original = file.read()
            with open(path, "w") as file:
                file.write(original.replace("alpha", used["new_string"]))
            return "The file has been updated.", {
                "filePath": path,
                "oldString": "alpha",
                "newString": used["new_string"],
                "originalFile": original,
            }

        mode = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}
        call = self.call("Edit", given)
        if self.mode == "acceptEdits":
            self.result(call, *run(given))
        else:
            self.permitted(call, "Edit", given, run, permission_suggestions=[mode])
        self.stream("text", "Done.")

    def do_run(self, command: Any, content: Any) -> None:
        given = {"command": command, "description": "Run it"}
        suggestions = [
            {
                "type": "addRules",
                "rules": [{"toolName": "Bash", "ruleContent": command}],
                "behavior": "allow",
                "destination": "localSettings",
            },
            {"type": "addDirectories", "directories": ["/"], "destination": "session"},
            {"type": "setMode", "mode": "acceptEdits", "destination": "session"},
        ]
        answer = self.permitted(
            self.call("Bash", given),
            "Bash",
            given,
            lambda used: (f"ran {used['command']}",),
            permission_suggestions=suggestions,
        )
        self.stream("text", "Answer: " + json.dumps(answer))

    def do_agent(self, rest: Any, content: Any) -> None:
        call = self.call("Agent", {"description": "look around", "prompt": "look"})
        self.send(type="system", subtype="task_started", task_id="a1", tool_use_id=call, is_backgrounded=False)
        self.assistant({"type": "text", "text": "I look."}, parent=call)
        inner = self.call("Read", {"file_path": "/x"}, parent=call)
        self.result(inner, "seen", parent=call)
        self.result(call, "notes", {"status": "completed", "content": [{"type": "text", "text": "It is fine."}]})
        self.stream("text", "The agent says it is fine.")

    def do_todo(self, rest: Any, content: Any) -> None:
        todos = [{"content": "Look", "status": "completed"}, {"content": "Write", "status": "in_progress"}]
        self.result(self.call("TodoWrite", {"todos": todos}), "Todos have been modified")
        self.stream("text", "Planned.")

    def do_tasks(self, rest: Any, content: Any) -> None:
        for number, subject in (("1", "Look"), ("2", "Write")):
            self.result(
                self.call("TaskCreate", {"subject": subject}), "created", {"task": {"id": number, "subject": subject}}
            )
        self.result(self.call("TaskUpdate", {"taskId": "1", "status": "completed"}), "updated", {"success": True})
        self.stream("text", "Planned.")

    def do_question(self, rest: Any, content: Any) -> None:
        questions = [
            {
                "question": "Which colour?",
                "header": "Colour",
                "multiSelect": False,
                "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}],
            },
            {
                "question": "Which sizes?",
                "header": "Sizes",
                "multiSelect": True,
                "options": [{"label": "Small"}, {"label": "Large"}],
            },
        ]
        given = {"questions": questions[: 1 if rest == "one" else 2]}
        call = self.call("AskUserQuestion", given)
        answer = self.permitted(call, "AskUserQuestion", given, lambda used: ("answered",))
        said = answer["updatedInput"]["answers"] if answer["behavior"] == "allow" else answer["message"]
        self.stream("text", json.dumps(said))

    def do_plan(self, rest: Any, content: Any) -> None:
        given = {"plan": "1. do it"}
        self.permitted(self.call("ExitPlanMode", given), "ExitPlanMode", given, lambda used: ("go",))
        self.stream("text", f"The mode is {self.mode}.")

    def do_command(self, rest: Any, content: Any) -> None:
        self.send(type="system", subtype="status", status="compacting")
        self.send(type="system", subtype="compact_boundary", compact_metadata={"pre_tokens": 900, "post_tokens": 100})
        self.print("Compacted")

    def do_retry(self, rest: Any, content: Any) -> None:
        retry = {"attempt": 1, "max_retries": 10, "retry_delay_ms": 541, "error_status": 529, "error": "overloaded"}
        self.send(type="system", subtype="api_retry", **retry)
        self.do_greet(rest, content)

    def do_fail(self, rest: Any, content: Any) -> None:
        self.stream("text", "I begin.")
        raise ValueError("API Error: 400 the model says no")

    def do_login(self, rest: Any, content: Any) -> None:
        raise ValueError("Not logged in · Please run /login")

    def do_wait(self, rest: Any, content: Any) -> None:
        self.stream("text", "I wait.", is_open=True)
        self.wait()

    def do_deaf(self, rest: Any, content: Any) -> None:
        self.stream("text", f"I am {os.getpid()}.", is_open=True)
        while True:
            self.receive()

    def do_hold(self, rest: Any, content: Any) -> None:
        self.stream("text", "I hold.")
        message = self.receive()
        assert message["type"] == "user", message
        assert message["priority"] == "next", message
        self.added = (message["uuid"],)
        self.send(type="command_lifecycle", command_uuid=message["uuid"], state="started")
        self.stream("text", f"You added: {message['message']['content']}")

    def do_background(self, rest: Any, content: Any) -> None:
        call = self.call("Agent", {"description": "look later", "prompt": "look"})
        self.send(type="system", subtype="task_started", task_id="b1", tool_use_id=call, is_backgrounded=True)
        self.result(call, "Async agent launched", {"isAsync": True, "status": "async_launched"})
        given = {"command": "touch x"}
        inner = self.call("Bash", given, parent=call)
        answer = self.ask(inner, "Bash", given, agent_id="b1")
        self.result(inner, answer["behavior"], parent=call)
        self.stream("text", "It runs.")
        self.call_id = call

    def do_odd(self, rest: Any, content: Any) -> None:
        self.send(type="a_kind_of_tomorrow", what=[1])
        self.send(type="system", subtype="news_of_tomorrow")
        self.event(type="content_block_start", index=3, content_block={"type": "hologram"})
        self.event(type="content_block_delta", index=3, delta={"type": "hologram_delta", "light": 1})
        sys.stdout.write('not JSON\n[1]\n{"type": "assistant", "message": 3}\n{"type": "user"}\n')
        self.send(type="control_request", request_id="odd", request={"subtype": "dance"})
        refused = self.receive()
        assert refused["response"]["subtype"] == "error", refused
        self.stream("text", "Still here.")

    def do_crash(self, rest: Any, content: Any) -> None:
        if rest == "later":
            return self.later.append({"type": "crash"})
        self.stream("text", "I begin", is_open=True)
        sys.stderr.write("a bug in the program\n")
        sys.stderr.flush()
        os._exit(3)

    def do_saw(self, rest: Any, content: Any) -> None:
        path = option("--mcp-config")
        kinds = ["text"] if isinstance(content, str) else [block["type"] for block in content]
        seen = {
            "kinds": kinds,
            "mcp": path is not None and os.path.exists(path),
            "servers": SERVERS,
            "dirs": [ARGUMENTS[at + 1] for at, word in enumerate(ARGUMENTS) if word == "--add-dir"],
            "text": content if isinstance(content, str) else content[0].get("text"),
        }
        self.stream("text", json.dumps(seen))


SERVERS = {}
config = option("--mcp-config")
if config is not None:
    with open(config) as mcp_file:
        SERVERS = json.load(mcp_file)["mcpServers"]
if __name__ == "__main__":
    Claude().serve()

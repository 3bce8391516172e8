"""What the turns of the fake do, by the first word of the prompt."""

import json
import os
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from typing import Any

from tests.adapters.fake_codex.threads import WORK, WRITING, Interrupted, Refused, Turn, report


def think(turn: Turn, rest: str) -> None:
    item = turn.begin(turn.item("reasoning", summary=[], content=[]))
    for delta in ("Let me ", "think. "):
        turn.report("item/reasoning/summaryTextDelta", itemId=item["id"], summaryIndex=0, delta=delta)
    turn.complete(item, summary=["Let me think. "])
    turn.say("Done.")


def plan(turn: Turn, rest: str) -> None:
    steps = [{"step": "Look", "status": "completed"}, {"step": "Act", "status": "inProgress"}]
    turn.report("turn/plan/updated", explanation=None, plan=[*steps, {"step": "Rest", "status": "pending"}])
    turn.say("Planned.")


def search(turn: Turn, rest: str) -> None:
    item = turn.begin(turn.item("webSearch", query="", action=None, results=None))
    action = {"type": "search", "query": rest, "queries": [rest]}
    turn.complete(item, query=rest, action=action, results=[{"url": "https://example.com/", "title": "Example"}])
    turn.say("Found.")


def retry(turn: Turn, rest: str) -> None:
    error = {"message": "stream disconnected", "codexErrorInfo": "other", "additionalDetails": None}
    turn.report("error", error=error, willRetry=True)
    turn.report("warning", message="this is shown once")
    turn.say("After all.")


def fail(turn: Turn, rest: str) -> None:
    raise Refused(json.dumps({"type": "error", "error": {"message": "the model is not there"}}))


def crash(turn: Turn, rest: str) -> None:
    item = turn.begin(turn.item("agentMessage", text=""))
    turn.report("item/agentMessage/delta", itemId=item["id"], delta="before the crash")
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
    sys.stderr.write("panicked at fake.rs\n")
    sys.stderr.flush()
    os._exit(7)


def flood(turn: Turn, count: str) -> None:
    turn.say(*(f"{number} " for number in range(int(count))))


def wait(turn: Turn, rest: str) -> None:
    item = turn.begin(turn.item("agentMessage", text=""))
    turn.report("item/agentMessage/delta", itemId=item["id"], delta="waiting")
    turn.wait(lambda: turn.steered)
    turn.complete(item, text="waiting")
    content = [{"type": "text", "text": turn.steered[0], "text_elements": []}]
    turn.complete(turn.begin(turn.item("userMessage", content=content)))
    turn.say("Steered: ", turn.steered[0])


def command_item(turn: Turn, command: str, kind: str = "unknown", **more: Any) -> dict[str, Any]:
    action = {"type": kind, "command": command, **more}
    members = {"command": f"/bin/bash -lc {json.dumps(command)}", "cwd": turn.thread.cwd, "commandActions": [action]}
    return turn.begin(turn.item("commandExecution", **members, status="inProgress", aggregatedOutput=None))


def may_run(turn: Turn, item: dict[str, Any], command: str) -> bool:
    if turn.thread.settings["approvalPolicy"] == "never" or command in turn.thread.allowed:
        return True
    rule = {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": command.split()}}
    asked = {"itemId": item["id"], "reason": "it writes", "command": item["command"], "cwd": turn.thread.cwd}
    answer = turn.ask("item/commandExecution/requestApproval", **asked, availableDecisions=["accept", rule, "cancel"])
    decision = answer.get("decision")
    if decision == rule:
        turn.thread.allowed.add(command)
    if decision not in ("accept", "acceptForSession", rule):
        turn.complete(item, status="declined")
    if decision == "cancel":
        raise Interrupted
    return decision in ("accept", "acceptForSession", rule)


def run(turn: Turn, command: str, is_left: bool = False) -> None:
    item = command_item(turn, command)
    if not may_run(turn, item, command):
        turn.say("It was not permitted.")
        return
    child = subprocess.Popen(
        ["/bin/sh", "-c", command],
        cwd=turn.thread.cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
        env={**os.environ, "CODEX_THREAD_ID": turn.thread.id, "CODEX_TOOL_CALL_ID": item["id"]},
    )
    turn.thread.terminals[item["id"]] = child
    ended = threading.Event()

    def follow() -> None:
        assert child.stdout is not None
        pieces = []
        for line in child.stdout:
            pieces.append(line)
            if len(pieces) > 1:  # the first output is missing from the pieces, as in the real one
                turn.report("item/commandExecution/outputDelta", itemId=item["id"], delta=line)
        code = child.wait()
        turn.thread.terminals.pop(item["id"], None)
        status = "completed" if code == 0 else "failed"
        turn.complete(item, status=status, exitCode=max(code, -1), aggregatedOutput="".join(pieces))
        ended.set()
        turn.wake()

    threading.Thread(target=follow, daemon=True).start()
    if is_left:
        turn.say("It runs on.")
        return
    turn.wait(ended.is_set)
    turn.say("It ran.")


def deaf(turn: Turn, command: str) -> None:
    item = command_item(turn, command)
    child = subprocess.Popen(["/bin/sh", "-c", command], cwd=turn.thread.cwd, stdin=subprocess.DEVNULL)
    turn.complete(item, status="completed", exitCode=child.wait())


def read(turn: Turn, path: str) -> None:
    item = command_item(turn, f"cat {path}", "read", name=os.path.basename(path), path=path)
    turn.complete(item, status="completed", exitCode=0, aggregatedOutput=Path(path).read_text())
    turn.say("I read it.")


def change(turn: Turn, path: str, kind: dict[str, Any], diff: str, text: str) -> None:
    changes = [{"path": path, "kind": kind, "diff": diff}]
    item = turn.begin(turn.item("fileChange", changes=changes, status="inProgress"))
    answer = turn.ask("item/fileChange/requestApproval", itemId=item["id"], reason=None, grantRoot=None)
    if answer.get("decision") not in ("accept", "acceptForSession"):
        turn.complete(item, status="declined")
        if answer.get("decision") == "cancel":
            raise Interrupted
        turn.say("I left it.")
        return
    Path(path).write_text(text)
    turn.complete(item, status="completed")
    turn.say("I changed it.")


def add(turn: Turn, path: str) -> None:
    change(turn, path, {"type": "add"}, "new\n", "new\n")


def edit(turn: Turn, path: str) -> None:
    before = Path(path).read_text().splitlines()
    diff = f"@@ -1,2 +1,2 @@\n-{before[0]}\n+changed\n {before[1]}\n"
    after = "\n".join(["changed", *before[1:]]) + "\n"
    change(turn, path, {"type": "update", "move_path": None}, diff, after)


def mcp(turn: Turn, rest: str) -> None:
    members = {"server": "demo", "tool": "shout", "arguments": {"text": rest}, "result": None, "error": None}
    item = turn.begin(turn.item("mcpToolCall", **members, status="inProgress"))
    meta: dict[str, Any] = {
        "codex_approval_kind": "mcp_tool_call",
        "persist": ["session", "always"],
        "tool_params": {"text": rest},
    }
    asked: dict[str, Any] = {"serverName": "demo", "mode": "form", "message": "Allow it?", "_meta": meta}
    answer = turn.ask("mcpServer/elicitation/request", **asked, requestedSchema={"type": "object", "properties": {}})
    if answer.get("action") != "accept":
        turn.complete(item, status="failed", error={"message": "user rejected MCP tool call"})
    else:
        turn.report("item/mcpToolCall/progress", itemId=item["id"], message="half of it")
        content = [{"type": "text", "text": rest.upper()}]
        turn.complete(item, status="completed", result={"content": content, "structuredContent": None})
    turn.say(json.dumps(answer))


def ask(turn: Turn, rest: str) -> None:
    options = [{"label": "Red", "description": ""}, {"label": "Blue", "description": ""}]
    question: dict[str, Any] = {"id": "q1", "header": "Colour", "question": "Which colour?", "options": options}
    turn.say(json.dumps(turn.ask("item/tool/requestUserInput", itemId="x", questions=[question], isBlocking=True)))


def unknown(turn: Turn, rest: str) -> None:
    with WRITING:
        sys.stdout.write("this is not JSON\n[1, 2]\n\n")
        sys.stdout.flush()
    turn.report("item/tomorrow/delta", itemId="x", delta="?")
    report("thread/of/tomorrow", threadId=turn.thread.id)
    report("notOfAThread", whatever=[1])
    report("turn/completed", threadId=str(uuid.uuid4()), turn={"id": "of another thread", "status": "failed"})
    turn.complete(turn.begin(turn.item("holograph", status="inProgress", beam=3)), status="completed")
    answer = turn.ask("item/holograph/requestApproval", itemId="x")
    turn.say(json.dumps(answer))


def more(turn: Turn, rest: str) -> None:
    """Items that are rare."""
    path = os.path.join(turn.thread.cwd, "picture.png")
    turn.complete(turn.begin(turn.item("imageView", path=path)))
    data = {
        "status": "completed",
        "revisedPrompt": "a dot",
        "failure": None,
        "result": "iVBORw0KGgo=",
        "savedPath": path,
    }
    turn.complete(turn.begin(turn.item("imageGeneration", **data)))
    child = str(uuid.uuid4())
    spawn: dict[str, Any] = {
        "tool": "spawnAgent",
        "status": "completed",
        "prompt": "look",
        "receiverThreadIds": [child],
    }
    starter = turn.begin(turn.item("collabAgentToolCall", **spawn, agentsStates={}))
    turn.complete(starter)
    inner: dict[str, Any] = {
        "type": "commandExecution",
        "id": f"inner_{child[:6]}",
        "command": "ls",
        "cwd": turn.thread.cwd,
    }
    inner |= {"status": "inProgress", "commandActions": [{"type": "listFiles", "command": "ls", "path": None}]}
    report("item/started", threadId=child, turnId="t", item=inner)
    report("item/completed", threadId=child, turnId="t", item={**inner, "status": "completed", "exitCode": 0})
    report("item/agentMessage/delta", threadId=child, turnId="t", itemId="m", delta="not the answer")
    turn.thread.name = "A name from Codex"
    report("thread/name/updated", threadId=turn.thread.id, threadName=turn.thread.name)
    turn.say("That was it.")


WORK |= {"THINK": think, "PLAN": plan, "SEARCH": search, "RETRY": retry, "FAIL": fail, "CRASH": crash, "WAIT": wait}
WORK |= {
    "RUN": run,
    "LEAVE": lambda turn, command: run(turn, command, is_left=True),
    "DEAF": deaf,
    "READ": read,
    "ADD": add,
}
WORK |= {"EDIT": edit, "MCP": mcp, "ASK": ask, "UNKNOWN": unknown, "MORE": more, "FLOOD": flood}

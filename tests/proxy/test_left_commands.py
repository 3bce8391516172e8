"""Commands that an agent leaves running after a cancelled turn are ended by the guard, as by a host."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from dragoman.process import proctable
from tests.process.kit import until
from tests.versions.line_client import DRAGOMAN, LineClient, program

# A stand-in for agents that forget their commands: a prompt starts one in a session of its own, and a cancel answers
# the prompt. Something that it started before, for itself, is named in the answer to `initialize`.
AGENT = """
import json, subprocess, sys
def send(**frame):
    print(json.dumps({"jsonrpc": "2.0", **frame}), flush=True)
own = subprocess.Popen(["sleep", "1000"], start_new_session=True)
prompts, sessions = {}, 0
for line in sys.stdin:
    asked = json.loads(line)
    method, params = asked["method"], asked.get("params", {})
    if method == "initialize":
        send(id=asked["id"], result={"protocolVersion": 1, "agentCapabilities": {},
             "agentInfo": {"name": "a", "version": str(own.pid)}})
    elif method == "session/new":
        sessions += 1
        send(id=asked["id"], result={"sessionId": f"s{sessions}"})
    elif method == "session/prompt":
        session = params["sessionId"]
        call = {"sessionUpdate": "tool_call", "toolCallId": "c", "kind": "execute", "status": "in_progress"}
        child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        send(method="session/update", params={"sessionId": session, "update": {**call, "title": str(child.pid)}})
        prompts[session] = asked["id"]
    elif method == "session/cancel":
        send(id=prompts.pop(params["sessionId"]), result={"stopReason": "cancelled"})
"""


async def start(editor: LineClient, folder: Path) -> tuple[str, int]:
    """A session with a turn in which a command runs: its id and the pid of the command."""
    session = (await editor.ask("session/new", {"cwd": str(folder), "mcpServers": []}))["sessionId"]
    prompt = [{"type": "text", "text": "work"}]
    editor.send(
        {"id": f"prompt {session}", "method": "session/prompt", "params": {"sessionId": session, "prompt": prompt}}
    )
    update = await editor.until(lambda frame: frame.get("method") == "session/update")
    return session, int(update["params"]["update"]["title"])


async def cancel(editor: LineClient, session: str) -> None:
    """Return when the turn is over."""
    editor.send({"method": "session/cancel", "params": {"sessionId": session}})
    answer = await editor.until(lambda frame: frame.get("id") == f"prompt {session}")
    assert answer["result"]["stopReason"] == "cancelled"


def runs(pid: int) -> bool:
    """Whether a process runs; its agent does not wait for it, so it may stay as a zombie."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


async def greet(editor: LineClient) -> int:
    """Return the pid of what the agent started for itself, when a turn that begins now is seen to be later."""
    greeting: dict[str, Any] = {"protocolVersion": 1, "clientCapabilities": {}}
    own = int((await editor.ask("initialize", greeting))["agentInfo"]["version"])
    # The kernel rounds down when a process was started, so two ticks decide which was first.
    later = proctable.status(own).started + 3 * proctable.TICK_SECONDS
    await until(lambda: time.clock_gettime(time.CLOCK_BOOTTIME) > later)
    return own


async def test_a_command_that_an_agent_leaves_running_after_a_cancel_is_ended(tmp_path: Path) -> None:
    async with program(*DRAGOMAN, "guard", "--", sys.executable, "-S", "-c", AGENT, cwd=tmp_path) as editor:
        own = await greet(editor)
        session, command = await start(editor, tmp_path)
        assert runs(command)
        await cancel(editor, session)
        assert not runs(command), "it is ended before the turn is over, so that none of the next turn is hit"
        assert runs(own), "what the agent started for itself stays"
        await editor.finish()


async def test_while_another_turn_runs_no_command_is_ended_because_it_may_belong_to_that(tmp_path: Path) -> None:
    async with program(*DRAGOMAN, "guard", "--", sys.executable, "-S", "-c", AGENT, cwd=tmp_path) as editor:
        await greet(editor)
        first, left = await start(editor, tmp_path)
        second, command = await start(editor, tmp_path)
        await cancel(editor, first)
        assert runs(command)
        assert runs(left)
        await cancel(editor, second)
        assert not runs(command)
        await editor.finish()
    assert not runs(left), "with the guard everything ends"

"""The short ways, used as a script uses them: with real agents as real processes."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dragoman
from dragoman.client import WorkspaceFiles
from dragoman.schema import v1
from dragoman.scripting import link
from dragoman.testing import ScriptedClient, linked, scripted_agent
from tests.cli.terminal_kit import Terminal
from tests.project.sources import ROOT

ECHO = [sys.executable, str(ROOT / "examples" / "echo_agent.py")]
# The smallest image there is: one pixel.
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without settings."""
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / "home"


def add_agent(home: Path, name: str, *command: str, **more: Any) -> None:
    (home / "config").mkdir(parents=True)
    entry = {"command": command[0], "args": command[1:], **more}
    (home / "config" / "settings.json").write_text(json.dumps({"agent_servers": {name: entry}}))


async def test_one_question_is_one_call(tmp_path: Path) -> None:
    reply = await dragoman.ask(ECHO, "Hello", cwd=tmp_path)
    assert (str(reply), reply.text, reply.stop_reason) == ("You said: Hello",) * 2 + ("end_turn",)
    assert reply.state.turns[0].stop_reason == "end_turn"


def test_a_program_without_a_loop_waits_for_the_answer(tmp_path: Path) -> None:
    assert dragoman.run(ECHO, "Hello", cwd=tmp_path).text == "You said: Hello"


async def test_waiting_inside_a_loop_is_refused_with_what_to_write() -> None:
    with pytest.raises(dragoman.LocalProtocolError, match=r"use: await dragoman.ask\(...\)"):
        dragoman.run(ECHO, "Hello")


async def test_an_agent_is_asked_by_its_name(tmp_path: Path) -> None:
    assert "hi there" in (await dragoman.ask("scripted", "hi there", cwd=tmp_path)).text


async def test_names_of_the_users_settings_are_known_with_their_environment(tmp_path: Path, home: Path) -> None:
    program = tmp_path / "agent.py"
    program.write_text(
        "import os, dragoman\nagent = dragoman.Agent('env')\n@agent.prompt\ndef reply(text):\n"
        "    yield os.environ.get('ONE', '-') + os.environ.get('TWO', '-')\nagent.run()\n"
    )
    add_agent(home, "mine", sys.executable, str(program), env={"ONE": "1", "TWO": "2"})
    async with dragoman.spawn("mine", env={"TWO": "two"}) as agent:
        session = await agent.new_session(cwd=tmp_path)
        await session.prompt("go")
    assert session.state.text == "1two"


async def test_a_word_that_is_a_program_and_no_agent_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "my-echo"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nexec {sys.executable} {ECHO[1]}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    assert (await dragoman.ask("my-echo", "Hello", cwd=tmp_path)).text == "You said: Hello"


async def test_a_name_that_does_not_exist_is_an_error_that_helps() -> None:
    with pytest.raises(dragoman.ConfigError, match="no agent is called 'scriptd'; did you mean"):
        await dragoman.ask("scriptd", "Hello")


async def test_the_time_of_a_question_can_be_limited(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError):
        await dragoman.ask("scripted", "slow 30", cwd=tmp_path, timeout=0.5)


async def test_a_prompt_may_mix_text_and_files(tmp_path: Path) -> None:
    (tmp_path / "dot.png").write_bytes(PNG)
    (tmp_path / "notes.md").write_text("# Notes\n")
    (tmp_path / "data.bin").write_bytes(b"\xff\x00")
    agent, prompts = dragoman.Agent("test"), list[tuple[Any, ...]]()

    @agent.prompt(accepts=("image", "embedded_context"))
    async def reply(turn: dragoman.Turn) -> None:
        prompts.append(turn.prompt)
        await turn.say(dragoman.image(PNG))

    async with linked(agent) as remote:
        session = await remote.new_session(cwd=tmp_path)
        files = [dragoman.resource(tmp_path / name) for name in ("notes.md", "data.bin")]
        await session.prompt(["What is", dragoman.image(tmp_path / "dot.png"), *files, link(tmp_path / "notes.md")])
    [(text, picture, notes, data, there)] = prompts
    assert text == v1.TextContent("What is")
    assert (base64.b64decode(picture.data), picture.mime_type) == (PNG, "image/png")
    assert notes.resource == v1.TextResourceContents("# Notes\n", (tmp_path / "notes.md").as_uri(), "text/markdown")
    assert data.resource.blob == "/wA="
    assert (there.name, there.uri, there.size) == ("notes.md", (tmp_path / "notes.md").as_uri(), 8)


def test_what_is_not_an_image_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# Notes\n")
    with pytest.raises(dragoman.LocalProtocolError, match=r"notes\.md: not a PNG, JPEG, GIF or WebP image"):
        dragoman.image(tmp_path / "notes.md")
    assert dragoman.image(b"<svg/>", mime_type="image/svg+xml").mime_type == "image/svg+xml"
    with pytest.raises(FileNotFoundError):
        dragoman.image(tmp_path / "none.png")


def writer() -> dragoman.Agent:
    """Asks for each path of the prompt, then writes it through the client."""
    agent = dragoman.Agent("writer")

    @agent.prompt
    async def reply(turn: dragoman.Turn) -> None:
        for path in turn.text.split():
            async with turn.tool(f"Write {path}", kind="edit", locations=[path], start=False) as call:
                await call.diff(path, None, "new\n")
                permission = await turn.ask(call)
                await turn.say(f"{path} {'yes' if permission else permission.kind or 'cancelled'}\n")
                if permission:
                    await turn.write_file(path, "new\n")

    return agent


async def asked(permission: Any, folder: Path, paths: str, **options: Any) -> list[str]:
    async with linked(writer(), permission=permission, **options) as remote:
        session = await remote.new_session(cwd=folder)
        await session.prompt(paths)
    return session.state.text.splitlines()


async def test_rules_decide_about_requests_and_about_files_alike(tmp_path: Path) -> None:
    policy = dragoman.rules("edit:src/**", deny=["edit:src/secret/**"])
    (tmp_path / "src" / "secret").mkdir(parents=True)
    paths = "src/a.py src/secret/b.py c.py"
    lines = await asked(policy, tmp_path, paths, files=WorkspaceFiles(permissions=policy))
    assert lines == ["src/a.py yes", "src/secret/b.py reject_once", "c.py cancelled"]
    assert (tmp_path / "src" / "a.py").read_text() == "new\n"
    assert {decision.action for decision in policy.decisions} == {"allow", "deny", "cancelled"}


def test_a_rule_that_cannot_be_read_names_its_place() -> None:
    with pytest.raises(dragoman.ConfigError, match=r"the rule 'edti:src' \(rules\(\), deny\)"):
        dragoman.rules(deny=["edti:src"])


async def test_everything_or_nothing_can_be_allowed(tmp_path: Path) -> None:
    assert await asked(dragoman.allow_once, tmp_path, "a.py") == ["a.py yes"]
    assert await asked(dragoman.deny_all, tmp_path, "a.py") == ["a.py reject_once"]
    assert await asked(None, tmp_path, "a.py") == ["a.py cancelled"]


@pytest.mark.parametrize("policy", [dragoman.allow_once, dragoman.deny_all])
async def test_an_option_of_another_kind_is_never_chosen(policy: Callable[..., Any]) -> None:
    offered = [v1.PermissionOption("a", "A", "allow_always"), v1.PermissionOption("r", "R", "reject_always")]
    assert await policy(v1.RequestPermissionRequest("s", v1.ToolCallPatch("1"), offered), None) is None


async def test_without_a_terminal_no_user_is_asked(tmp_path: Path) -> None:
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", SCRIPT, *SCRIPTED],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.stdout == "not allowed (None)\n", done.stderr


SCRIPTED = ("-m", "dragoman.testing.scripted_agent")
SCRIPT = (
    "import sys, dragoman\n"
    "print(dragoman.run([sys.executable, *sys.argv[1:]], 'permission', permission=dragoman.ask_in_terminal))"
)


def test_the_user_is_asked_at_the_terminal(tmp_path: Path) -> None:
    pid, master = pty.fork()
    if pid == 0:
        try:
            os.chdir(tmp_path)
            os.execve(sys.executable, [sys.executable, "-c", SCRIPT, *SCRIPTED], {**os.environ, "TERM": "xterm"})
        finally:
            os._exit(127)
    terminal = Terminal(pid, master)
    terminal.until("asks for permission")
    terminal.until("your answer")
    terminal.type("1\r")
    assert terminal.wait() == 0
    os.close(master)
    assert "\nallowed (allow)" in terminal.text


async def test_the_services_of_a_test_client_still_fit(tmp_path: Path) -> None:
    client = ScriptedClient()
    async with linked(scripted_agent(), **client.options()) as remote:
        session = await remote.new_session(cwd=tmp_path)
        await session.prompt("permission", meta={"traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01"})
    assert len(client.asked) == 1
    await client.close()

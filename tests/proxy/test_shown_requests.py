"""What an editor is shown behind the guard: what was read of a request, and not what the agent calls it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.client.lying_agent import HIDDEN
from tests.proxy.kit import Guarded, guarded, permission, selected
from tests.versions.line_client import DRAGOMAN, LineClient, program

ANSWERS = ("allow-once", "allow-session", "allow-project", "reject-once", "reject-session", "reject-project")
LIAR = [sys.executable, str(Path(__file__).parents[1] / "client/lying_agent.py")]


class User:
    """An editor without files and terminals, and its user."""

    def __init__(self, client: LineClient, answer: str) -> None:
        self._client = client
        self._answer = answer
        self.asked: list[Any] = []
        self.text = ""

    async def prompt(self, folder: Path, text: str) -> None:
        """Open a session, send a prompt and answer what is asked meanwhile."""
        await self._ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        session = (await self._ask("session/new", {"cwd": str(folder), "mcpServers": []}))["sessionId"]
        for line in text.split("\n"):
            prompt = {"sessionId": session, "prompt": [{"type": "text", "text": line}]}
            await self._ask("session/prompt", prompt)

    async def _ask(self, method: str, params: dict[str, Any]) -> Any:
        self._client.send({"id": "e", "method": method, "params": params})
        while True:
            frame = await self._client.read()
            if frame.get("id") == "e" and "method" not in frame:
                return frame["result"]
            if frame.get("method") == "session/update":
                content = frame["params"]["update"].get("content")
                self.text += content.get("text", "") if isinstance(content, dict) else ""
            if "id" in frame:
                self.asked.append(frame["params"])
                self._client.send({"id": frame["id"], "result": selected(self._answer)})


@pytest.fixture(autouse=True)
def _project(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()


def shown_text(params: Any) -> str:
    """The text that the guard adds to the content of a tool call."""
    return str(params["toolCall"]["content"][-1]["content"]["text"])


async def test_the_editor_is_shown_the_command_that_runs_and_not_the_title(tmp_path: Path) -> None:
    async with program(*DRAGOMAN, "guard", "--", *LIAR, cwd=tmp_path) as client:
        user = User(client, "yes")
        await user.prompt(tmp_path, "lie")
        await client.finish()
    (asked,) = user.asked
    call = asked["toolCall"]
    assert (call["kind"], call["title"], call["rawInput"]["command"]) == ("execute", HIDDEN, HIDDEN)
    assert f"shell  {HIDDEN}\n" in shown_text(asked)
    assert "agent  calls it: npm test\n" in shown_text(asked)
    assert "why    no rule allows it" in shown_text(asked)
    assert [(option["optionId"], option["name"]) for option in asked["options"]] == [
        ("yes", "Allow"),
        ("ever", "Reject (yes, always; the agent remembers it)"),
        ("no", "Reject"),
    ]
    assert (tmp_path / "hidden-file").exists(), "what was shown was permitted"


async def test_every_answer_to_a_question_of_the_guard_writes_what_it_stated_and_nothing_else(tmp_path: Path) -> None:
    offered: list[str] = []
    for option in ANSWERS:
        folder = tmp_path / option
        (folder / ".git").mkdir(parents=True)
        async with program(*DRAGOMAN, "guard", "--no-audit", "--", *LIAR, cwd=folder) as client:
            user = User(client, option)
            await user.prompt(folder, "run touch made\nrun touch made")
            await client.finish()
        asked, *more = user.asked
        offered = [each["optionId"] for each in asked["options"]]
        labels = {each["optionId"]: each["name"] for each in asked["options"]}
        named = f"{labels[option]}: "
        stated = [line.removeprefix(named) for line in shown_text(asked).split("\n") if line.startswith(named)]
        assert (folder / "made").exists() == option.startswith("allow")
        assert bool(more) == option.endswith("once"), "an answer that holds longer is not asked about again"
        assert user.text.count("refused: ") == (0 if option.startswith("allow") else 2)
        kept = folder / "config/dragoman/rules.json"
        saved = json.loads(kept.read_text())["projects"] if kept.exists() else {}
        action = "allow" if option.startswith("allow") else "deny"
        if option.endswith("project"):
            ((project, (rule,)),) = saved.items()
            assert project == str(folder)
            assert (rule["action"], rule["rule"]) == (action, "execute:touch made")
            assert stated == [f"writes: {action} execute:touch made, in {kept}"]
        else:
            assert saved == {}
            assert stated == ([f"keeps: {action} execute:touch made"] if option.endswith("session") else [])
    assert offered == [
        "allow-once",
        "allow-session",
        "allow-project",
        "reject-once",
        "reject-session",
        "reject-project",
    ]


async def test_a_rejected_command_stays_rejected_in_other_spellings(tmp_path: Path) -> None:
    async with guarded(tmp_path) as guard:
        await guard.open()
        await _answer_terminal(guard, "reject-session", "git", "push", "origin", "main")
        for line in ("git  push 'origin' main", "/usr/bin/git push origin main", "true && git push origin main"):
            params = permission(kind="execute", rawInput={"command": line})
            assert await guard.asked("session/request_permission", **params) == selected("no"), line
        assert guard.editor == []


async def _answer_terminal(guard: Guarded, option: str, *words: str) -> None:
    params = {"sessionId": "s", "command": words[0], "args": list(words[1:])}
    guard.from_agent({"id": 1, "method": "terminal/create", "params": params})
    asked = await guard.for_editor()
    guard.from_editor({"id": asked["id"], "result": selected(option)})
    await guard.for_editor()
    await guard.for_agent()


LONG = "echo " + "x" * 30_000 + "; touch hidden-file"


@pytest.mark.parametrize(
    ("line", "title", "is_covered"),
    [
        ("npm test" + " " * 200 + "; touch x", "npm test <200 blanks> ; touch x", True),
        ("npm test\ntouch x", "npm test ⏎ touch x", True),
        ("npm test \u202e; touch x", "npm test <U+202E>; touch x", True),
        (LONG, None, False),
    ],
)
async def test_what_cannot_be_shown_whole_permits_nothing_that_follows(
    line: str, title: str | None, is_covered: bool, tmp_path: Path
) -> None:
    async with guarded(tmp_path) as guard:
        await guard.open({"terminal": True})
        params = {"sessionId": "s", **permission(kind="execute", title="npm test", rawInput={"command": line})}
        guard.from_agent({"id": 1, "method": "session/request_permission", "params": params})
        asked = await guard.for_editor()
        call = asked["params"]["toolCall"]
        if title is None:
            assert call["title"].endswith("; touch hidden-file")
            assert "more characters" in call["title"]
        else:
            assert call["title"] == title
        assert call["rawInput"]["command"] == line
        guard.from_editor({"id": asked["id"], "result": selected("yes")})
        await guard.for_agent()
        started = {"sessionId": "s", "command": "sh", "args": ["-c", line]}
        guard.from_agent({"id": 2, "method": "terminal/create", "params": started})
        following = (await guard.for_editor())["method"]
        assert following == ("terminal/create" if is_covered else "session/request_permission")


async def test_a_change_that_the_content_does_not_show_is_added_to_it(tmp_path: Path) -> None:
    async with guarded(tmp_path) as guard:
        await guard.open()
        path = f"{guard.folder}/a.py"
        shown = {"type": "diff", "path": path, "newText": "harmless"}
        call: dict[str, Any] = {
            "kind": "edit",
            "title": "Format",
            "content": [shown],
            "rawInput": {"path": path, "content": "evil"},
        }
        guard.from_agent(
            {"id": 1, "method": "session/request_permission", "params": {"sessionId": "s", **permission(**call)}}
        )
        asked = (await guard.for_editor())["params"]["toolCall"]
        assert asked["title"] == "Edit a.py"
        assert [item["newText"] for item in asked["content"] if item["type"] == "diff"] == ["harmless", "evil"]


async def test_several_files_of_one_request_are_all_named(tmp_path: Path) -> None:
    async with guarded(tmp_path) as guard:
        await guard.open()
        places = [{"path": f"{guard.folder}/a.py"}, {"path": "/etc/passwd"}]
        params = permission(kind="delete", title="Clean up", locations=places)
        guard.from_agent({"id": 1, "method": "session/request_permission", "params": {"sessionId": "s", **params}})
        asked = (await guard.for_editor())["params"]
        assert asked["toolCall"]["title"] == "Delete a.py, /etc/passwd"
        assert "path   /etc/passwd  (outside the project)" in shown_text(asked)


async def test_an_agent_cannot_pass_its_request_off_as_one_of_the_guard(tmp_path: Path) -> None:
    """Ids of the guard's own tool calls begin in one way; an agent may use the same."""
    async with guarded(tmp_path, asks_editor=False) as guard:
        await guard.open()
        params = permission(kind="execute", rawInput={"command": "id"})
        params["toolCall"]["toolCallId"] = "dragoman-1"
        assert await guard.asked("session/request_permission", **params) == selected("no")

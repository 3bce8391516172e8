"""What a client needs to open sessions and write prompts: agents, folders, files, worktrees, and prompts that wait."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import ConfigError
from dragoman.host.host import Visitor
from tests.host.kit import OURS, Client, Hosted, OnTheWire, hosted
from tests.host.test_questions import END
from tests.host.test_watching import answered, changed, refusal

TEXT = "session/prompt"


def git(folder: Path, *words: str) -> None:
    named = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *named, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with an ignored file, in a folder that a visitor may use."""
    place = tmp_path / "allowed" / "project"
    (place / "src" / "deep").mkdir(parents=True)
    (place / "secret").mkdir()
    for name in ("src/loader.py", "src/deep/loading_test.py", "README.md", "secret/key.pem"):
        (place / name).write_text("text\n")
    (place / ".gitignore").write_text("secret/\n*.log\n")
    (place / "build.log").write_text("log\n")
    git(place, "init", "-qb", "main")
    git(place, "add", ".")
    git(place, "commit", "-qm", "one")
    return place


def limited(project: Path) -> Visitor:
    return Visitor("local", frozenset(("view", "prompt")), (str(project.parent),), is_local=False)


async def test_files_are_those_of_the_session_without_what_git_ignores(project: Path) -> None:
    async with hosted(OnTheWire()) as host:
        line = await host.client(OURS)
        session = await line.open(str(project))

        async def paths(query: str) -> list[str]:
            found = await line.result("_dragoman/files", sessionId=session, query=query)
            assert found["isCut"] is False
            return [row["path"] for row in found["files"]]

        everything = await paths("")
        assert {"README.md", "src/", "src/loader.py"} <= set(everything)
        assert not [path for path in everything if "secret" in path or path.endswith(".log")]
        assert (await paths("load"))[0] == "src/loader.py"
        assert (await paths("sdlt"))[0] == "src/deep/loading_test.py", "letters in their order"
        assert await paths("key.pem") == []
        row = (await line.result("_dragoman/files", sessionId=session, query="READ"))["files"][0]
        assert row["uri"] == (project / "README.md").as_uri()
        for elsewhere in ("/etc", str(project.parent), "."):
            assert (await refusal(line, "_dragoman/files", sessionId=session, query="", cwd=elsewhere))[
                "code"
            ] == -32002
        for number in range(60):
            (project / f"many-{number}.txt").write_text("")
        other = await host.client(OURS)
        many = await other.result("_dragoman/files", sessionId=session, query="many")
        assert len(many["files"]) == 50


async def test_folders_are_those_that_the_visitor_may_use(project: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (project.parent / "link").symlink_to(outside)
    (project.parent / "plain").mkdir()
    async with hosted(OnTheWire()) as host:
        owner = await host.client(OURS)
        for folder in (project, project, outside):
            await owner.open(str(folder))
        line = await host.client(OURS, visitor=limited(project))
        found = await line.result("_dragoman/folders")
        assert found["folders"] == [{"path": str(project.parent), "isAllowed": True}]
        assert [(row["path"], row["sessions"]) for row in found["recent"]] == [(str(project), 2)]
        listed = await line.result("_dragoman/folders", path=str(project.parent))
        assert listed["children"] == [
            {"name": "plain", "path": str(project.parent / "plain"), "isProject": False},
            {"name": "project", "path": str(project), "isProject": True},
        ], "not the link that leads outside"
        assert listed["parent"] is None
        below = await line.result("_dragoman/folders", path=str(project / "src") + "/../src")
        assert (below["path"], below["parent"]) == (str(project / "src"), str(project))
        missing = await refusal(line, "_dragoman/folders", path=str(tmp_path / "no-such-folder"))
        for path in (
            outside,
            project.parent / "link",
            project.parent / ".." / "outside",
            tmp_path,
            Path("/"),
            Path("/etc"),
        ):
            assert await refusal(line, "_dragoman/folders", path=str(path)) == missing
        assert (await refusal(line, "_dragoman/folders", path="src"))["code"] == -32602
        free = await owner.result("_dragoman/folders", path=str(tmp_path))
        assert [row["name"] for row in free["children"]] == ["allowed", "outside"]


async def test_agents_are_listed_without_starting_one() -> None:
    source = OnTheWire()
    async with hosted(source, more=[OnTheWire("other")]) as host:
        line = await host.client(OURS)
        agents = (await line.result("_dragoman/agents"))["agents"]
        assert {row["name"]: row["state"] for row in agents} == {"test": "ready", "other": "ready"}
        bound = await host.client(OURS, visitor=Visitor(agent="test"))
        assert [row["name"] for row in (await bound.result("_dragoman/agents"))["agents"]] == ["test"]
        assert source.starts <= 1, "the binding itself may have looked once"


async def test_a_session_gets_a_worktree_that_is_listed_merged_and_discarded(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    source = OnTheWire()
    async with hosted(source) as host:
        line = await host.client(OURS, visitor=limited(project))
        new: dict[str, Any] = {"cwd": str(project / "src"), "mcpServers": []}
        opened = await line.result("session/new", **new, _meta={"dragoman": {"worktree": {"name": "try"}}})
        own = opened["_meta"]["dragoman"]
        assert (own["worktree"]["name"], own["worktree"]["project"]) == ("try", str(project))
        copy = Path(own["worktree"]["path"])
        assert own["cwd"] == str(copy / "src")
        assert source.agent.opened[0]["params"]["cwd"] == str(copy / "src")
        row = (await line.result("session/list"))["sessions"][0]
        assert row["_meta"]["dragoman"]["worktree"] == {"name": "try", "project": str(project)}
        (copy / "src" / "loader.py").write_text("changed\n")
        listed = (await line.result("_dragoman/worktrees", cwd=str(project)))["worktrees"]
        assert [(row["name"], row["files"], row["sessionId"]) for row in listed] == [("try", 1, opened["sessionId"])]
        assert (await line.result("_dragoman/worktrees"))["worktrees"] == listed
        named = {"cwd": str(project), "name": "try"}
        line.prompt(opened["sessionId"])
        prompt = await source.agent.prompted()
        other = await host.client(OURS, visitor=limited(project))
        for method in ("_dragoman/worktrees/merge", "_dragoman/worktrees/discard"):
            assert (await refusal(other, method, **named))["data"] == {"reason": "running"}
        source.agent.reply(prompt, END)
        await changed_to_idle(host, other)
        # In conflict nothing is written; then all of it.
        (project / "src" / "loader.py").write_text("mine\n")
        conflict = await answered(other, "_dragoman/worktrees/merge", **named)
        assert conflict["merged"] == []
        assert [item["path"] for item in conflict["conflicts"]] == ["src/loader.py"]
        assert (project / "src" / "loader.py").read_text() == "mine\n"
        (project / "src" / "loader.py").write_text("text\n")
        assert (await answered(other, "_dragoman/worktrees/merge", **named))["merged"] == ["src/loader.py"]
        assert (project / "src" / "loader.py").read_text() == "changed\n"
        assert await answered(other, "_dragoman/worktrees/discard", **named) == {}
        assert not os.path.lexists(copy)  # noqa: ASYNC240 - a look
        assert (await answered(other, "_dragoman/worktrees", cwd=str(project)))["worktrees"] == []
        assert (await refusal(other, "_dragoman/worktrees/discard", **named))["code"] == -32002


async def changed_to_idle(host: Hosted, line: Client) -> None:
    rows = (await answered(line, "_dragoman/sessions/watch"))["sessions"]
    if rows[0]["_meta"]["dragoman"]["state"] != "idle":
        await changed(line, lambda row: row["state"] == "idle")
    await answered(line, "_dragoman/sessions/unwatch")


async def test_no_worktree_is_made_that_would_show_more_than_the_visitor_may_see(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    source = OnTheWire()
    async with hosted(source) as host:
        inner = Visitor("local", folders=(str(project / "src"),))
        line = await host.client(OURS, visitor=inner)

        async def refused(cwd: Path, name: object) -> int:
            asked = {"cwd": str(cwd), "mcpServers": [], "_meta": {"dragoman": {"worktree": {"name": name}}}}
            code: int = (await refusal(line, "session/new", **asked))["code"]
            return code

        assert await refused(project / "src", "try") == -32602, "its project is the whole repository"
        line = await host.client(OURS)
        for name in ("../evil", "", 7, "a/b"):
            assert await refused(project, name) in (-32602, -32603)
        source.fails.append(ConfigError("it does not start"))
        assert await refused(project, "try") == -32603
        assert not list((tmp_path / "data").rglob("record.json")), "nothing is left of it"


async def test_prompts_that_wait_are_changed_and_removed_by_their_sender_or_an_administrator() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        kind: dict[str, Any] = {"_meta": {"dragoman": {"client": "me"}}}
        line, session = await host.opened(kind)

        def send(id: str, text: str) -> int:
            meta = {"dragoman": {"promptId": id}}
            asked: int = line.ask(TEXT, sessionId=session, prompt=[{"type": "text", "text": text}], _meta=meta)
            return asked

        send("p1", "one")
        first = await source.agent.prompted()
        send("p2", "two")
        third = send("p3", "three")
        me = await host.client(kind)
        watcher = await host.client(OURS)
        await watcher.resume(session)
        rights = frozenset(("view", "prompt", "answer"))
        stranger = await host.client({"_meta": {"dragoman": {"client": "you"}}}, visitor=Visitor(rights=rights))
        await answered(me, "_dragoman/sessions/watch")
        edit, new = "_dragoman/queue/edit", [{"type": "text", "text": "two, but better"}]
        params = {"sessionId": session, "promptId": "p2", "prompt": new}
        assert (await refusal(stranger, edit, **params))["data"] == {"reason": "forbidden"}
        assert (await refusal(me, edit, **{**params, "promptId": "p1"}))["data"] == {"reason": "running"}
        assert (await refusal(me, edit, **{**params, "promptId": "p9"}))["code"] == -32002
        assert (await refusal(me, edit, **{**params, "prompt": "text"}))["code"] == -32602
        assert await answered(me, edit, **params) == {"promptIds": ["p2", "p3"]}
        row = await changed(me, lambda row: [item["text"] for item in row["waiting"]] == ["two, but better", "three"])
        assert [item["isMine"] for item in row["_meta"]["dragoman"]["waiting"]] == [True, True]
        remove = {"sessionId": session, "promptId": "p3"}
        assert (await refusal(stranger, "_dragoman/queue/remove", **remove))["data"] == {"reason": "forbidden"}
        assert await answered(await host.client(OURS), "_dragoman/queue/remove", **remove) == {"promptIds": ["p2"]}
        _, gone = await line.answer_to(third)
        assert gone["result"] == {"stopReason": "cancelled"}
        source.agent.reply(first, END)
        second = await source.agent.prompted()
        assert second["params"]["prompt"][0]["text"] == "two, but better"
        shown = [await watcher.until_update("user_message_chunk") for _ in range(2)]
        assert [update["content"]["text"] for update in shown] == ["one", "two, but better"]
        source.agent.reply(second, END)
        while (await line.next()).get("result") != END:
            pass
        history, _ = await (await host.client()).load(session)
        texts = [update["content"]["text"] for update in history if update["sessionUpdate"] == "user_message_chunk"]
        assert "two, but better" in texts
        assert "two" not in texts


async def test_a_session_is_named_and_archived_by_the_host_for_clients_that_use_unstable_methods() -> None:
    source = OnTheWire()
    new: dict[str, Any] = {"_meta": {"dragoman": {"unstable": True}}}
    async with hosted(source) as host:
        line, session = await host.opened(OURS)
        source.agent.update("session_info_update", title="What the agent calls it")
        await line.until_update("session_info_update")
        page = await host.client(hello=False)
        can = (await page.hello(new))["agentCapabilities"]["sessionCapabilities"]
        assert (can["title"], can["archive"]) == ({}, {})
        plain = await host.client(hello=False)
        can = (await plain.hello(OURS))["agentCapabilities"]["sessionCapabilities"]
        assert not can.keys() & {"title", "archive"}
        for method in ("session/set_title", "session/archive", "session/unarchive"):
            error = await refusal(plain, method, sessionId=session, title="x")
            assert error["code"] == -32601, "what is not announced is not there"
            assert (await refusal(page, method, sessionId="none", title="x"))["code"] == -32002
        await answered(page, "_dragoman/sessions/watch")
        named = await answered(page, "session/set_title", sessionId=session, title="  Retry \n webhooks ")
        assert named == {"title": "Retry webhooks"}
        assert (await line.until_update("session_info_update"))["title"] == "Retry webhooks"
        source.agent.update("session_info_update", title="Another", updatedAt="2026-01-01T00:00:00Z")
        assert "title" not in await line.until_update("session_info_update")
        for title in ("", " ", "x" * 201, "a\x07b", 7):
            assert (await refusal(page, "session/set_title", sessionId=session, title=title))["code"] == -32602
        prompt_id = line.prompt(session)
        prompt = await source.agent.prompted()
        assert (await refusal(page, "session/archive", sessionId=session))["code"] == -32600
        source.agent.reply(prompt, END)
        await line.answer_to(prompt_id)
        assert await answered(page, "session/archive", sessionId=session) == {}
        while session not in (await page.until("_dragoman/sessions/changed"))["params"]["removed"]:
            pass
        assert (await line.result("session/list"))["sessions"] == []
        only = (await line.result("session/list", archived="only"))["sessions"]
        assert [(row["sessionId"], row["title"], row["archived"]) for row in only] == [
            (session, "Retry webhooks", True)
        ]
        assert len((await line.result("session/list", archived="include"))["sessions"]) == 1
        assert await answered(page, "session/unarchive", sessionId=session) == {}
        assert len((await line.result("session/list"))["sessions"]) == 1
        # A prompt brings it back: what works and may ask is in sight.
        await answered(page, "session/archive", sessionId=session)
        line.prompt(session)
        prompt = await source.agent.prompted()
        await changed(page, lambda row: row["state"] == "running" and "archivedAt" not in row)
        source.agent.reply(prompt, END)

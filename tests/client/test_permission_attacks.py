"""A permission covers what was shown and nothing else, on the wire: an agent that shows one thing and does another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.agent import Agent, Turn
from dragoman.client.files import WorkspaceFiles
from dragoman.client.permission import ClientPermissions
from dragoman.client.terminals import LocalTerminals
from dragoman.errors import RequestError
from dragoman.policy import Rule, parse_rule
from dragoman.schema import v1
from dragoman.testing import linked
from tests.client.permission_kit import FOUR, User, allow, chosen, deny


class WorkingAgent:
    """The agent's side of a turn: announces, asks for permission, and uses the client's files and terminals."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self._client = turn.session.client

    async def announce(self, call: v1.ToolCall) -> None:
        await self.turn.update(call)

    async def ask(self, call_id: str = "call_1", **members: Any) -> str | None:
        call = v1.ToolCallPatch(call_id, **members)
        request = v1.RequestPermissionRequest(self.turn.session.id, call, list(FOUR))
        answer = await self._client._ask("session/request_permission", request, v1.RequestPermissionResponse)
        return chosen(answer.outcome)

    async def write(self, path: Path, content: str) -> bool:
        """Whether the client wrote the file."""
        request = v1.WriteTextFileRequest(self.turn.session.id, str(path), content)
        try:
            await self._client._ask("fs/write_text_file", request, v1.WriteTextFileResponse)
        except RequestError:
            return False
        return True

    async def run(self, command: str, *args: str, **members: Any) -> bool:
        """Whether the client ran the command; waits for its end."""
        session_id = self.turn.session.id
        request = v1.CreateTerminalRequest(session_id, command, args=list(args), **members)
        try:
            made = await self._client._ask("terminal/create", request, v1.CreateTerminalResponse)
        except RequestError:
            return False
        waiting = v1.WaitForTerminalExitRequest(session_id, made.terminal_id)
        await self._client._ask("terminal/wait_for_exit", waiting, v1.WaitForTerminalExitResponse)
        return True


@asynccontextmanager
async def working(cwd: Path, *rules: Rule, user: User | None = None) -> AsyncIterator[WorkingAgent]:
    """A turn that lasts as long as the body, with a client that offers files and terminals."""
    permissions = ClientPermissions(rules, agent="a", asker=user)
    agent = Agent("working")
    started: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
    over = asyncio.Event()

    @agent.prompt
    async def reply(turn: Turn) -> None:
        started.set_result(turn)
        await over.wait()

    async with linked(
        agent,
        permission=permissions.permission,
        files=WorkspaceFiles(permissions=permissions),
        terminals=LocalTerminals(permissions=permissions),
    ) as remote:
        session = await remote.new_session(cwd=str(cwd))
        async with session.prompt("go") as prompting:
            yield WorkingAgent(await started)
            over.set()
            await prompting


class FirstYes(User):
    """A user who allows the first question and refuses every other."""

    def __init__(self) -> None:
        super().__init__("yes")

    async def ask(self, question: Any, session: Any) -> str | None:
        answer = await super().ask(question, session)
        self.answer = None
        return answer


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".git" / "hooks").mkdir(parents=True)
    (tmp_path / "a.txt").write_text("one\nold\nthree\n")
    return tmp_path


def diff(path: Path, new: str, old: str | None = None) -> list[v1.ToolCallContent]:
    return [v1.Diff(str(path), new, old_text=old)]


@pytest.mark.parametrize("by_rule", [True, False])
async def test_a_title_is_not_a_permission_to_run_something(project: Path, by_rule: bool) -> None:
    rules = [allow("execute")] if by_rule else []
    async with working(project, *rules, user=FirstYes()) as agent:
        await agent.ask(kind="execute", title="npm test")
        assert not await agent.run("touch $(echo ran)")
    assert not (project / "ran").exists()


@pytest.mark.parametrize("kind", ["execute", "edit"])
async def test_a_permission_for_an_mcp_tool_runs_and_writes_nothing(project: Path, kind: str) -> None:
    path = project / "a.txt"
    async with working(project, allow("mcp:github:get_*"), user=(user := User("yes"))) as agent:
        shown: dict[str, Any] = {"name": "mcp__github__get_issue", "raw_input": {"command": "touch ran"}}
        assert await agent.ask(kind=kind, content=diff(path, "x"), **shown) == "yes"
        user.answer = None
        assert not await agent.run("touch ran")
        assert not await agent.write(path, "x")
    assert not (project / "ran").exists()


async def test_a_shown_change_permits_no_other_content(project: Path) -> None:
    path = project / "a.txt"
    for other in ("evil\n", "one\nsafe\nthree\nevil\n", "safe", ""):
        async with working(project, user=FirstYes()) as agent:
            assert await agent.ask(kind="edit", content=diff(path, "safe", "old")) == "yes"
            assert not await agent.write(path, other), other
    assert path.read_text() == "one\nold\nthree\n"


async def test_a_second_path_that_is_protected_is_asked_for_again(project: Path) -> None:
    hook = project / ".git" / "hooks" / "pre-commit"
    user = FirstYes()
    async with working(project, allow("*"), user=user) as agent:
        both = [*diff(project / "a.txt", "x\n"), *diff(hook, "evil\n")]
        assert await agent.ask(kind="edit", content=both) == "yes"
        assert await agent.write(project / "a.txt", "x\n")
        assert not await agent.write(hook, "evil\n")
    assert len(user.asked) == 2
    assert not hook.exists()


async def test_what_was_announced_and_what_is_asked_for_are_both_judged(project: Path) -> None:
    async with working(project, allow("execute:ls"), allow("execute:rm *"), deny("execute:rm a.txt")) as agent:
        await agent.announce(v1.ToolCall("one", "Run", kind="execute", raw_input={"command": "ls"}))
        assert await agent.ask("one", raw_input={"command": "rm a.txt"}) == "no"
        await agent.announce(v1.ToolCall("two", "Run", kind="execute", raw_input={"command": "rm a.txt"}))
        assert await agent.ask("two", raw_input={"command": "ls"}) == "no"


async def test_the_id_of_a_finished_call_is_not_evidence(project: Path) -> None:
    async with working(project, allow("execute:ls")) as agent:
        await agent.announce(v1.ToolCall("c", "Run", kind="execute", raw_input={"command": "ls"}, status="completed"))
        assert await agent.ask("c") is None
        await agent.announce(v1.ToolCall("open", "Run", kind="execute", raw_input={"command": "ls"}))
        assert await agent.ask("open") == "yes"


async def test_a_request_that_names_nothing_is_about_all_open_calls(project: Path) -> None:
    """OpenHands confirms what it announced before, under an id of its own, the same each time."""
    async with working(project, allow("*"), deny("execute:rm *")) as agent:
        nothing: dict[str, Any] = {"kind": "other", "title": "Confirm Agent Actions"}
        assert await agent.ask("confirm", **nothing) is None
        await agent.announce(v1.ToolCall("1", "Run", kind="execute", raw_input={"command": "ls"}))
        assert await agent.ask("confirm", **nothing) == "yes"
        await agent.announce(v1.ToolCall("2", "Run", kind="execute", raw_input={"command": "rm -r ."}))
        assert await agent.ask("confirm", **nothing) == "no"
        await agent.announce(v1.ToolCall("2", "Run", status="failed"))
        assert await agent.ask("confirm", **nothing) == "yes"


async def test_a_change_shown_for_a_link_is_one_of_the_file_it_leads_to(project: Path) -> None:
    (project / "b.txt").write_text("b\n")
    link = project / "link"
    link.symlink_to(project / "a.txt")
    async with working(project, deny("edit:a.txt"), allow("edit:link")) as agent:
        assert await agent.ask(kind="edit", content=diff(link, "x\n")) == "no"
    async with working(project, user=FirstYes()) as agent:
        assert await agent.ask(kind="edit", content=diff(link, "x\n")) == "yes"
        link.unlink()
        link.symlink_to(project / "b.txt")
        assert not await agent.write(link, "x\n")
    assert (project / "b.txt").read_text() == "b\n"


async def test_the_file_of_the_input_and_the_file_of_the_change_are_both_judged(project: Path) -> None:
    async with working(project, allow("edit"), deny("edit:b.txt"), deny("edit:c.txt")) as agent:
        content = diff(project / "a.txt", "x")
        assert await agent.ask(kind="edit", raw_input={"path": "b.txt"}, content=content) == "no"
        assert await agent.ask(kind="edit", raw_input={"path": "a.txt"}, content=diff(project / "c.txt", "x")) == "no"
        assert await agent.ask(kind="edit", raw_input={"path": "a.txt"}, content=content) == "yes"


@pytest.mark.parametrize(
    "members",
    [
        {"kind": "other", "title": "Something"},
        {"kind": "other", "raw_input": {"a": {"b": {"c": {"d": {"e": {"f": {"files": [{"path": "a.txt"}]}}}}}}}},
        {"kind": "other", "raw_input": {"files": [[[[[[[[{"path": "a.txt"}]]]]]]]]}},
        {"kind": "execute", "call_id": "write_todos__1", "title": "Set 3 todo(s)"},
        {"kind": "edit", "title": "Edit a file"},
        {"kind": "execute", "title": "ls"},
        {"kind": "execute", "content": [v1.Content(v1.TextContent('{"command": "ls'))]},
        {"kind": "execute", "raw_input": {"command": ["ls", 1]}},
    ],
)
async def test_what_cannot_be_read_is_not_allowed_by_a_rule_for_everything(
    project: Path, members: dict[str, Any]
) -> None:
    user = User(None)
    async with working(project, allow("*"), user=user) as agent:
        assert await agent.ask(**members) is None
    assert ["could not be read" in question.why for question in user.asked] == [True]
    user.answer = "yes"
    async with working(project, user=user) as agent:
        assert await agent.ask(**members) == "yes"
        user.answer = None
        assert not await agent.run("ls")
        assert not await agent.write(project / "a.txt", "x")


DEEP = {"a": {"b": {"c": {"d": {"e": {"f": {"g": {"files": [{"path": "secret.txt"}]}}}}}}}}


@pytest.mark.parametrize(
    ("members", "rules", "is_allowed"),
    [
        ({"kind": "execute", "raw_input": {"command": "ls", **DEEP}}, [allow("execute:ls")], False),
        ({"kind": "execute", "raw_input": {"command": "ls"}}, [allow("execute:ls")], True),
        ({"kind": "read", "raw_input": {"path": "a.txt", **DEEP}}, [allow("read"), deny("read:secret.txt")], False),
        ({"kind": "read", "raw_input": {"path": "a.txt", **DEEP}}, [allow("read")], True),
        ({"kind": "read", "raw_input": {"path": "a.txt"}}, [deny("read:secret.txt")], True),
    ],
)
async def test_what_could_not_be_read_of_a_request_is_judged_next_to_the_rest(
    project: Path, members: dict[str, Any], rules: list[Rule], is_allowed: bool
) -> None:
    async with working(project, *rules) as agent:
        assert (await agent.ask(**members) == "yes") == is_allowed


async def test_a_change_with_a_command_in_it_is_both(project: Path) -> None:
    both: dict[str, Any] = {"kind": "edit", "raw_input": {"path": "a.txt", "command": "rm -r ."}}
    async with working(project, allow("edit")) as agent:
        assert await agent.ask(**both) is None
    async with working(project, allow("execute:rm *")) as agent:
        assert await agent.ask(**both) is None
    async with working(project, allow("edit"), allow("execute:rm *")) as agent:
        assert await agent.ask(**both) == "yes"


async def test_a_patch_is_a_change_of_the_files_it_names(project: Path) -> None:
    """Cline sends patches with the kind `other`."""
    patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-old\n+new\n*** Add File: .git/hooks/pre-commit\n+x\n"
    async with working(project, allow("*"), deny("edit")) as agent:
        assert await agent.ask(kind="other", raw_input={"input": patch}) == "no"
    user = User(None)
    async with working(project, allow("*"), user=user) as agent:
        assert await agent.ask(kind="other", raw_input={"input": patch}) is None
    assert "protected" in user.asked[0].why


async def test_a_command_in_another_folder_is_another_command(project: Path) -> None:
    (project / "sub").mkdir()
    cases: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
        ({"command": "touch ran"}, {"cwd": str(project / "sub")}, False),
        ({"command": "touch ran", "cwd": str(project / "sub")}, {}, False),
        ({"command": "touch ran", "cwd": str(project / "sub")}, {"cwd": str(project / "sub")}, True),
        ({"command": "touch ran"}, {"cwd": str(project)}, True),
        ({"command": "touch ran"}, {"env": [v1.EnvVariable("PATH", "/tmp")]}, False),
        ({"command": "touch ran"}, {"env": [v1.EnvVariable("NO_COLOR", "1"), v1.EnvVariable("TERM", "dumb")]}, True),
    ]
    for shown, run, is_covered in cases:
        async with working(project, user=FirstYes()) as agent:
            assert await agent.ask(kind="execute", raw_input=shown) == "yes"
            assert await agent.run("touch", "ran", **run) is is_covered, (shown, run)
            assert not await agent.run("touch", "ran", **run), "a permission is used up by one start"


@pytest.mark.parametrize(
    "line",
    ["cd '{0}' && touch ran && echo out", "cd {0} && touch ran && echo out", "touch ran && echo out"],
)
async def test_a_command_is_known_through_a_shell_and_a_change_to_its_folder(project: Path, line: str) -> None:
    """Kimi Code and fast-agent run what they showed in these forms."""
    async with working(project, user=FirstYes()) as agent:
        assert await agent.ask(kind="execute", raw_input={"command": "touch ran && echo out"}) == "yes"
        assert not await agent.run("/bin/bash", "-c", "cd / && touch ran && echo out")
        assert not await agent.run("/bin/bash", "-c", line.format(project) + " && id")
        assert await agent.run("/bin/bash", "-lc", line.format(project), cwd=str(project))
    assert (project / "ran").exists()


@pytest.mark.parametrize(
    ("shown", "written"),
    [
        ({"content": [("one\nnew\nthree", "one\nold\nthree")]}, "one\nnew\nthree\n"),  # Kimi: without the last newline
        ({"content": [("one\nnew\nthree\n", "one\nold\nthree\n")]}, "one\nnew\nthree\n"),  # Gemini: the whole file
        ({"content": [("new", "old")]}, "one\nnew\nthree\n"),  # Claude: the piece that changes
        ({"raw_input": {"old_string": "old", "new_string": "new"}}, "one\nnew\nthree\n"),
        ({"raw_input": {"content": "all of it\n"}}, "all of it\n"),
        ({"raw_input": {"old": "o", "new": "0", "all": True}}, "0ne\n0ld\nthree\n"),
    ],
)
async def test_the_change_that_was_shown_is_written_without_asking_again(
    project: Path, shown: dict[str, Any], written: str
) -> None:
    path = project / "a.txt"
    members: dict[str, Any] = {}
    if "content" in shown:
        members["content"] = [v1.Diff(str(path), new, old_text=old) for new, old in shown["content"]]
    else:
        members["raw_input"] = {"file_path": str(path), **shown["raw_input"]}
    user = FirstYes()
    async with working(project, user=user) as agent:
        assert await agent.ask(kind="edit", **members) == "yes"
        assert await agent.write(path, written)
        assert not await agent.write(project / "b.txt", written)
    assert (path.read_text(), len(user.asked)) == (written, 2)


async def test_a_piece_that_is_not_in_the_file_or_is_there_twice_permits_nothing(project: Path) -> None:
    path = project / "a.txt"
    for text, old, new, written in [
        ("one\n", "old", "new", "new\n"),
        ("old old\n", "old", "new", "new old\n"),
        ("one\n", "old", "new", "one\nnew\n"),
    ]:
        path.write_text(text)
        async with working(project, user=FirstYes()) as agent:
            assert await agent.ask(kind="edit", content=diff(path, new, old)) == "yes"
            assert not await agent.write(path, written)
        assert path.read_text() == text


async def test_reading_a_project_file_needs_no_rule_and_a_deny_wins(project: Path, tmp_path_factory: Any) -> None:
    """Cline asks before it reads."""
    outside = tmp_path_factory.mktemp("outside") / "secret"
    (project / "out").symlink_to(outside)

    def reading(*paths: object) -> dict[str, Any]:
        return {"kind": "read", "raw_input": {"files": [{"path": str(path)} for path in paths]}}

    asking = parse_rule("read:b.txt", "ask", "repository")
    async with working(project, deny("read:secret.txt"), asking) as agent:
        assert await agent.ask(**reading(project / "a.txt")) == "yes"
        assert await agent.ask(**reading("a.txt", "sub/c.txt")) == "yes"
        assert await agent.ask(**reading("a.txt", "secret.txt")) == "no"
        assert await agent.ask(**reading("b.txt")) is None
        assert await agent.ask(**reading("a.txt", outside)) is None
        assert await agent.ask(**reading("out")) is None
        assert await agent.ask(kind="read", title="a.txt") is None
        assert await agent.ask(kind="read", raw_input={"path": "a.txt", "command": "cat a.txt"}) is None
        assert await agent.ask(raw_input={"path": "a.txt"}) is None
        assert not await agent.write(project / "a.txt", "x")


async def test_a_change_that_is_sent_twice_is_shown_once(project: Path) -> None:
    user = FirstYes()
    raw = {"path": "a.txt", "old_string": "old", "new_string": "new", "replace_all": False}
    async with working(project, user=user) as agent:
        await agent.ask(kind="edit", raw_input=raw, content=diff(project / "a.txt", "new", "old"))
    assert [(shown.path, shown.new_text) for shown in user.asked[0].diffs] == [(str(project / "a.txt"), "new")]
    assert user.asked[0].also == ()


async def test_an_open_call_of_another_session_is_not_evidence(project: Path) -> None:
    permissions = ClientPermissions([allow("execute:ls")], agent="a")
    agent = Agent("working")
    answers: list[str | None] = []
    announced = asyncio.Event()
    asked = asyncio.Event()

    @agent.prompt
    async def reply(turn: Turn) -> None:
        working_agent = WorkingAgent(turn)
        if turn.text == "announce":
            await working_agent.announce(v1.ToolCall("1", "Run", kind="execute", raw_input={"command": "ls"}))
            announced.set()
            await asked.wait()
        answers.append(await working_agent.ask("confirm", kind="other", title="Confirm"))

    async with linked(agent, permission=permissions.permission) as remote:
        first, second = [await remote.new_session(cwd=str(project)) for _ in range(2)]
        async with first.prompt("announce") as announcing:
            await announced.wait()
            await second.prompt("ask")
            asked.set()
            await announcing
    assert answers == [None, "yes"]

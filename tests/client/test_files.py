"""`fs/*` below the session's roots: what an agent gets over the wire, and what is asked before a file is touched."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dragoman.client.files import WorkspaceFiles, turn_label
from dragoman.client.permission import ClientPermissions
from dragoman.errors import RequestError
from dragoman.policy import parse_rule
from dragoman.workspace import Change, FileLimits, Workspace
from tests.client.fixtures import AgentLine, client_and_agent

if TYPE_CHECKING:
    from dragoman.client import Session
    from dragoman.client.permission import Question
    from dragoman.policy import Request, Rule

LINES = "one\ntwo\nthree\n"


class Witness:
    """A permission check that keeps what it was asked, and answers as the test set."""

    def __init__(self, refuse: str = "") -> None:
        self.asked: list[tuple[Request, Change | None]] = []
        self._refuse = refuse

    async def check(
        self, request: Request, session: Session, *, change: Change | None = None, env: object = None
    ) -> None:
        self.asked.append((request, change))
        if self._refuse == request.kind:
            raise RequestError.internal_error("Not permitted")


class Conversation:
    """An agent that uses its client's files in one session."""

    def __init__(self, line: AgentLine, session: Session) -> None:
        self.session = session
        self._line = line
        self._number = 0

    async def ask(self, method: str, path: Path | str, **members: object) -> Any:
        """The answer: what `result` holds, or the error object."""
        self._number += 1
        self._line.send(self._line.request(self._number, method, sessionId=self.session.id, path=str(path), **members))
        answer = await self._line.next()
        assert answer["id"] == self._number
        return answer.get("result", answer.get("error"))

    async def read(self, path: Path | str, **window: object) -> Any:
        answer = await self.ask("fs/read_text_file", path, **window)
        return answer.get("content", answer)

    async def write(self, path: Path | str, content: str) -> Any:
        return await self.ask("fs/write_text_file", path, content=content)


@asynccontextmanager
async def conversation(files: WorkspaceFiles, cwd: Path, *more: Path) -> AsyncIterator[Conversation]:
    async with client_and_agent(files=files) as (agent, line):
        opening = asyncio.ensure_future(agent.new_session(cwd, additional_directories=more))
        await line.answer("session/new", {"sessionId": "s1"})
        yield Conversation(line, await opening)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "proj"
    project.mkdir()
    (project / "lines.txt").write_text(LINES)
    (tmp_path / "secret.txt").write_text("secret\n")
    return project


def permissions(*rules: Rule, asker: Any = None) -> ClientPermissions:
    return ClientPermissions(rules, agent="tester", asker=asker)


def rule(action: str, text: str) -> Rule:
    return parse_rule(text, action, "flag", f"--{action}")


ALLOW_ALL = rule("allow", "*")


@pytest.mark.rule(274, 277)
async def test_a_file_is_read_whole_or_by_lines_counted_from_one(project: Path) -> None:
    async with conversation(WorkspaceFiles(permissions=None), project) as talk:
        path = project / "lines.txt"
        assert await talk.read(path) == LINES
        assert await talk.read(path, line=None, limit=None) == LINES
        assert await talk.read(path, line=2, limit=1) == "two\n"
        assert await talk.read(path, line=1, limit=0) == ""
        assert await talk.read(path, line=4) == ""


@pytest.mark.rule(278, 279)
async def test_a_file_is_written_and_the_answer_is_an_empty_object(project: Path) -> None:
    async with conversation(WorkspaceFiles(permissions=None), project) as talk:
        assert await talk.write(project / "new" / "file.txt", "größe\n") == {}
        assert (project / "new" / "file.txt").read_text() == "größe\n"
        assert await talk.read(project / "new" / "file.txt") == "größe\n"


@pytest.mark.rule(280)
async def test_a_missing_file_is_not_found(project: Path) -> None:
    async with conversation(WorkspaceFiles(permissions=None), project) as talk:
        answer = await talk.read(project / "missing.txt")
        assert answer["code"] == -32002
        assert answer["data"] == {"path": str(project / "missing.txt"), "kind": "missing"}


async def test_an_agent_that_cannot_live_with_that_gets_an_empty_text(project: Path) -> None:
    async with conversation(WorkspaceFiles(permissions=None, missing="empty"), project) as talk:
        assert await talk.read(project / "missing.txt") == ""
        assert (await talk.read(project.parent / "secret.txt"))["code"] == -32602


@pytest.mark.rule(281)
async def test_the_sessions_folders_decide_what_can_be_reached(project: Path, tmp_path: Path) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "code.py").write_text("pass\n")
    files = WorkspaceFiles(permissions=None)
    async with conversation(files, project, tmp_path / "library") as talk:
        assert await talk.read(tmp_path / "library" / "code.py") == "pass\n"
        for path in (tmp_path / "secret.txt", f"{project}/../secret.txt"):
            answer = await talk.read(path)
            assert (answer["code"], answer["data"]["kind"]) == (-32602, "outside")
            assert "secret\n" not in str(answer)
            assert (await talk.write(path, "x"))["data"]["kind"] == "outside"
        assert files.workspace_of(talk.session).roots == (str(project), str(tmp_path / "library"))
    async with conversation(files, project) as talk:
        assert (await talk.read(tmp_path / "library" / "code.py"))["code"] == -32602


async def test_a_file_that_is_not_text_is_answered_with_a_reason(project: Path) -> None:
    os.mkfifo(project / "pipe")
    (project / "image.png").write_bytes(b"\x89PNG\0")
    (project / "large.txt").write_bytes(b"x" * 2000)
    (project / "link").symlink_to(project.parent)
    limits = FileLimits(file_bytes=1000)
    files = WorkspaceFiles(permissions=None, open_workspace=lambda session: Workspace([session.cwd], limits=limits))
    async with conversation(files, project) as talk:
        for name, kind, word in (
            ("pipe", "not_a_file", "FIFO"),
            ("image.png", "binary", "not text"),
            ("large.txt", "too_large", "2,000 bytes"),
            ("", "not_a_file", "folder"),
        ):
            answer = await talk.read(project / name)
            assert (answer["code"], answer["data"]["kind"]) == (-32602, kind)
            assert word in answer["message"]
        answer = await talk.write(project / "link" / "x", "x")
        assert (answer["code"], answer["data"]["kind"]) == (-32602, "outside")
        assert "name a file inside" in answer["message"]


async def test_a_session_in_a_folder_that_is_gone_gets_an_answer(project: Path) -> None:
    async with conversation(WorkspaceFiles(permissions=None), project / "gone") as talk:
        assert (await talk.read(project / "gone" / "x"))["code"] == -32002


async def test_a_large_file_is_read_without_holding_up_the_loop(project: Path) -> None:
    text = "0123456789abcde\n" * 65536
    (project / "large.txt").write_text(text)
    async with conversation(WorkspaceFiles(permissions=None), project) as talk:
        assert await talk.read(project / "large.txt") == text
        assert await talk.read(project / "large.txt", line=65536) == "0123456789abcde\n"


@pytest.mark.rule(276)
async def test_unsaved_text_is_what_an_agent_reads(project: Path) -> None:
    files = WorkspaceFiles(permissions=None)
    async with conversation(files, project) as talk:
        files.workspace_of(talk.session).open_buffer(project / "lines.txt", "unsaved\n")
        assert await talk.read(project / "lines.txt") == "unsaved\n"
        await talk.write(project / "lines.txt", "by the agent\n")
        assert await talk.read(project / "lines.txt") == "by the agent\n"


async def test_what_a_turn_wrote_is_kept_under_its_label_and_can_be_rewound(project: Path) -> None:
    files = WorkspaceFiles(permissions=None)
    async with client_and_agent(files=files) as (agent, line):
        opening = asyncio.ensure_future(agent.new_session(project))
        await line.answer("session/new", {"sessionId": "s1"})
        session = await opening
        assert turn_label(session) == ""
        for number in range(2):
            prompting = asyncio.ensure_future(session.prompt("write")._finish())
            prompt = await line.expect("session/prompt")
            talk = Conversation(line, session)
            await talk.write(project / "lines.txt", f"turn {number}\n")
            await talk.write(project / f"{number}.txt", "new\n")
            line.send(line.result(prompt["id"], {"stopReason": "end_turn"}))
            await prompting
        journal = files.workspace_of(session).journal
        assert [change.path for change in journal.net("1")] == [str(project / "lines.txt"), str(project / "1.txt")]
        assert turn_label(session) == "1"
        journal.rewind("1")
        assert (project / "lines.txt").read_text() == "turn 0\n"
        assert sorted(os.listdir(project)) == ["0.txt", "lines.txt"]


async def test_writes_to_one_file_happen_in_the_order_they_came(project: Path) -> None:
    async with client_and_agent(files=WorkspaceFiles(permissions=Witness())) as (agent, line):
        opening = asyncio.ensure_future(agent.new_session(project))
        await line.answer("session/new", {"sessionId": "s1"})
        await opening
        for number in range(20):
            path = str(project / "lines.txt")
            line.send(line.request(number, "fs/write_text_file", sessionId="s1", path=path, content=f"{number}\n"))
        answers = [await line.next() for _ in range(20)]
        assert [answer.get("result") for answer in answers] == [{}] * 20
        assert (project / "lines.txt").read_text() == "19\n"


# ClientPermissions


async def test_permission_is_checked_with_the_path_and_the_change(project: Path) -> None:
    witness = Witness()
    async with conversation(WorkspaceFiles(permissions=witness), project) as talk:
        await talk.write(f"{project}/x/../lines.txt", "one\n2\nthree\n")
        ((request, change),) = witness.asked
        assert (request.kind, request.paths, request.root) == ("edit", (str(project / "lines.txt"),), str(project))
        assert change is not None
        assert [(hunk.before, hunk.after) for hunk in change.hunks] == [(("two\n",), ("2\n",))]


async def test_what_is_not_permitted_is_not_done(project: Path) -> None:
    async with conversation(WorkspaceFiles(permissions=Witness("edit")), project) as talk:
        assert (await talk.write(project / "lines.txt", "x"))["message"] == "Not permitted"
        assert (await talk.write(project / "new" / "file.txt", "x"))["message"] == "Not permitted"
        assert await talk.read(project / "lines.txt") == LINES
        assert os.listdir(project) == ["lines.txt"]
    async with conversation(WorkspaceFiles(permissions=Witness("read")), project) as talk:
        assert (await talk.read(project / "lines.txt"))["message"] == "Not permitted"


async def test_the_user_is_not_asked_about_what_cannot_be_done(project: Path) -> None:
    witness = Witness()
    async with conversation(WorkspaceFiles(permissions=witness), project) as talk:
        assert "code" in await talk.write(project.parent / "secret.txt", "x")
        assert "code" in await talk.read(project / "missing.txt")
        assert witness.asked == []


async def test_a_file_that_changes_while_the_user_decides_is_not_overwritten(project: Path) -> None:
    class Slow(Witness):
        async def check(
            self, request: Request, session: Session, *, change: Change | None = None, env: object = None
        ) -> None:
            (project / "lines.txt").write_text("saved meanwhile\n")

    async with conversation(WorkspaceFiles(permissions=Slow()), project) as talk:
        answer = await talk.write(project / "lines.txt", "by the agent\n")
        assert answer["data"]["kind"] == "changed"
        assert (project / "lines.txt").read_text() == "saved meanwhile\n"


async def test_a_link_does_not_lead_around_a_rule_about_what_may_be_read(project: Path) -> None:
    (project / "private").mkdir()
    (project / "private" / "key.txt").write_text("key\n")
    (project / "public.txt").symlink_to("private/key.txt")
    files = WorkspaceFiles(permissions=permissions(ALLOW_ALL, rule("deny", "read:private/**")))
    async with conversation(files, project) as talk:
        assert await talk.read(project / "lines.txt") == LINES
        for path in ("private/key.txt", "public.txt", "x/../private/key.txt"):
            answer = await talk.read(project / path)
            assert "read:private/**" in answer["message"]


async def test_a_link_does_not_lead_around_a_rule_about_what_may_be_written(project: Path) -> None:
    (project / "private").mkdir()
    (project / "private" / "key.txt").write_text("key\n")
    (project / "public.txt").symlink_to("private/key.txt")
    (project / "alias.txt").symlink_to("lines.txt")
    files = WorkspaceFiles(permissions=permissions(ALLOW_ALL, rule("deny", "edit:private/**")))
    async with conversation(files, project) as talk:
        assert "edit:private/**" in (await talk.write(project / "public.txt", "x\n"))["message"]
        assert (project / "private" / "key.txt").read_text() == "key\n"
        assert await talk.write(project / "alias.txt", "x\n") == {}
        assert (project / "alias.txt").is_symlink()
        assert (project / "lines.txt").read_text() == "x\n"
        assert [change.path for change in files.workspace_of(talk.session).journal.changes()] == [
            str(project / "lines.txt")
        ]


async def test_a_link_that_appears_while_the_user_decides_is_not_followed(project: Path) -> None:
    class Slow(Witness):
        async def check(
            self, request: Request, session: Session, *, change: Change | None = None, env: object = None
        ) -> None:
            (project / "other.txt").write_text(LINES)
            (project / "lines.txt").unlink()
            (project / "lines.txt").symlink_to("other.txt")

    async with conversation(WorkspaceFiles(permissions=Slow()), project) as talk:
        assert (await talk.write(project / "lines.txt", "by the agent\n"))["data"]["kind"] == "link"
        assert (project / "other.txt").read_text() == LINES


async def test_reading_below_the_roots_needs_no_rule_and_writing_does(project: Path) -> None:
    async with conversation(WorkspaceFiles(permissions=permissions()), project) as talk:
        assert await talk.read(project / "lines.txt") == LINES
        assert "no user can be asked" in (await talk.write(project / "lines.txt", "x"))["message"]
    async with conversation(WorkspaceFiles(permissions=permissions(rule("allow", "edit:src/**"))), project) as talk:
        assert await talk.write(project / "src" / "new.py", "pass\n") == {}
        assert "code" in await talk.write(project / "src" / ".." / "new.py", "pass\n")
        assert not (project / "new.py").exists()


class User:
    """A user who allows everything; keeps what was shown."""

    def __init__(self) -> None:
        self.questions: list[Question] = []

    async def ask(self, question: Question, session: Session) -> str:
        self.questions.append(question)
        return next(option.option_id for option in question.permission.options if option.kind == "allow_once")


PROTECTED = [
    ".git/hooks/pre-commit",
    ".git/config",
    ".vscode/tasks.json",
    ".mcp.json",
    ".claude/settings.json",
    ".bashrc",
    ".zshrc",
    ".github/workflows/ci.yml",
    "sub/.GIT/hooks/post-checkout",
    "src/../.git/hooks/pre-push",
]


@pytest.mark.parametrize("path", PROTECTED)
async def test_threat_5_a_protected_path_is_asked_for_even_if_everything_is_allowed(project: Path, path: str) -> None:
    async with conversation(WorkspaceFiles(permissions=permissions(ALLOW_ALL)), project) as talk:
        assert await talk.write(project / "plain.txt", "x\n") == {}
        assert "code" in await talk.write(f"{project}/{path}", "x\n")
        assert sorted(os.listdir(project)) == ["lines.txt", "plain.txt"]
    user = User()
    async with conversation(WorkspaceFiles(permissions=permissions(ALLOW_ALL, asker=user)), project) as talk:
        assert await talk.write(f"{project}/{path}", "x\n") == {}
        (question,) = user.questions
        assert "protected" in question.why
        assert question.diffs[0].new_text == "x\n"
        assert question.proposals == ()
        assert (project / path.removeprefix("src/../")).read_text() == "x\n"


async def test_threat_4_a_hard_link_is_asked_for_even_if_everything_is_allowed(project: Path, tmp_path: Path) -> None:
    os.link(tmp_path / "secret.txt", project / "linked.txt")
    async with conversation(WorkspaceFiles(permissions=permissions(ALLOW_ALL)), project) as talk:
        assert await talk.read(project / "linked.txt") == "secret\n"
        assert "hard link" not in (await talk.write(project / "lines.txt", "x\n")).get("message", "")
        assert "code" in await talk.write(project / "linked.txt", "x\n")
        assert (project / "linked.txt").read_text() == "secret\n"
    user = User()
    async with conversation(WorkspaceFiles(permissions=permissions(ALLOW_ALL, asker=user)), project) as talk:
        assert await talk.write(project / "linked.txt", "x\n") == {}
        assert "hard link" in user.questions[0].why
        assert (tmp_path / "secret.txt").read_text() == "secret\n"


async def test_threat_4_a_permission_given_by_a_rule_does_not_cover_a_hard_link(project: Path, tmp_path: Path) -> None:
    os.link(tmp_path / "secret.txt", project / "linked.txt")
    judge = permissions(rule("allow", "edit"))
    options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
    async with client_and_agent(files=WorkspaceFiles(permissions=judge), permission=judge.permission) as (agent, line):
        opening = asyncio.ensure_future(agent.new_session(project))
        await line.answer("session/new", {"sessionId": "s1"})
        talk = Conversation(line, await opening)
        for name in ("lines.txt", "linked.txt"):
            call = {"toolCallId": name, "title": "Edit", "kind": "edit", "locations": [{"path": str(project / name)}]}
            line.send(line.request(name, "session/request_permission", sessionId="s1", toolCall=call, options=options))
            assert (await line.next())["result"]["outcome"]["outcome"] == "selected"
        assert await talk.write(project / "lines.txt", "x\n") == {}
        assert "code" in await talk.write(project / "linked.txt", "x\n")


async def test_threat_4_a_hard_link_does_not_lead_around_a_rule_about_what_may_be_read(project: Path) -> None:
    (project / "secret.txt").write_text("secret\n")
    os.link(project / "secret.txt", project / "other.txt")
    (project / "plain.txt").write_text("plain\n")
    os.link(project / "plain.txt", project / "also.txt")
    files = WorkspaceFiles(permissions=permissions(ALLOW_ALL, rule("deny", "read:secret.*")))
    async with conversation(files, project) as talk:
        assert "Not permitted" in (await talk.read(project / "other.txt"))["message"]
        assert await talk.read(project / "also.txt") == "plain\n"

"""Turn permissions: what a decision covers, and what is judged without a permission request."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.agent import Agent, Turn
from dragoman.client.permission import ClientPermissions, NoUser
from dragoman.errors import RequestError
from dragoman.policy import Command, Request, Rule, parse_rule
from dragoman.policy.decide import TURN_PERMISSION
from dragoman.schema import v1
from dragoman.testing import linked
from dragoman.workspace import Change
from tests.client.permission_kit import FOUR, User, allow, deny, edit, refused, run, terminal, turn_of, write

OLD_TO_NEW = v1.Diff("/p/src/a.py", "new\n", old_text="old\n")


async def test_a_permission_covers_the_writes_of_that_file_that_follow_it() -> None:
    user = User("yes")
    permissions = ClientPermissions([], agent="a", asker=user)
    async with turn_of(permissions) as (ask, session):
        await ask(edit("/p/src/a.py", content=[OLD_TO_NEW]))
        user.answer = "reject-once"
        await permissions.check(write("/p/src/a.py"), session, change=Change("/p/src/a.py", b"old\n", b"new\n"))
        await permissions.check(write("/p/src/../src/a.py"), session, change=Change("/p/src/a.py", b"new\n", b"new\n"))
        other = Change("/p/src/b.py", b"old\n", b"new\n")
        assert await refused(permissions.check(write("/p/src/b.py"), session, change=other))
    assert [made.decided_by for made in permissions.decisions] == ["person", TURN_PERMISSION, TURN_PERMISSION, "person"]


async def test_a_permission_that_showed_no_text_covers_no_write() -> None:
    user = User("yes")
    permissions = ClientPermissions([], agent="a", asker=user)
    async with turn_of(permissions) as (ask, session):
        await ask(edit("/p/src/a.py"))
        user.answer = "reject"
        change = Change("/p/src/a.py", b"old\n", b"new\n")
        assert await refused(permissions.check(write("/p/src/a.py"), session, change=change))


async def test_a_turn_permission_ends_with_its_turn() -> None:
    permissions = ClientPermissions([], agent="a", asker=User("yes"))
    agent = Agent("asking")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        if turn.text == "ask":
            await turn.ask(v1.ToolCall("call_1", "Edit", kind="edit", content=[v1.Diff("/p/a", "new\n")]), FOUR)
        else:
            await turn.wait()

    async with linked(agent, permission=permissions.permission) as remote:
        session = await remote.new_session(cwd="/p")
        await session.prompt("ask")
        permissions._asker = NoUser()
        change = Change("/p/a", None, b"new\n")
        assert await refused(permissions.check(write("/p/a"), session, change=change))
        async with session.prompt("wait") as prompting:
            assert await refused(permissions.check(write("/p/a"), session, change=change))
            await prompting.cancel()
    assert [made.action for made in permissions.decisions] == ["allow", "cancelled", "cancelled"]


@pytest.mark.parametrize("answer", ["no", "never", None])
async def test_a_refusal_permits_nothing(answer: str | None) -> None:
    user = User(answer)
    permissions = ClientPermissions([], agent="a", asker=user)
    async with turn_of(permissions) as (ask, session):
        await ask(edit("/p/a", content=[v1.Diff("/p/a", "new\n")]))
        await ask(run("make"))
        assert await refused(permissions.check(write("/p/a"), session, change=Change("/p/a", None, b"new\n")))
        assert await refused(permissions.check(terminal("make"), session))


async def test_a_permission_to_read_is_not_one_to_write() -> None:
    permissions = ClientPermissions([], agent="a", asker=User("yes"))
    async with turn_of(permissions) as (ask, session):
        await ask(v1.ToolCallPatch("c", kind="read", locations=[v1.ToolCallLocation("/p/a")]))
        permissions._asker = NoUser()
        assert await refused(permissions.check(write("/p/a"), session))


@pytest.mark.parametrize(
    ("asked", "started"),
    [
        ("npm test", terminal("npm", "test")),
        ("npm test; id", terminal(shell="npm test; id")),
        ("npm test; id", terminal("/bin/bash", "-c", "npm test; id")),
        (["/bin/bash", "-lc", "npm test"], terminal("npm", "test")),
        ("make", terminal("/bin/bash", "-c", "cd '/p' && make")),
        ("cd sub && make", terminal(shell="cd /p && cd /p/sub && make")),
        ("make 'a b' &&  ls", terminal(shell="make a\\ b && ls  # list")),
        ("cd sub && make $X", terminal(shell="cd /p/sub && make $X")),
        (
            "cd sub && make 2>&1 | tail -5",
            Request("a", "execute", command=Command(line="make 2>&1 | tail -5", cwd="/p/sub")),
        ),
    ],
)
async def test_a_permission_covers_the_command_that_follows_it_once(asked: object, started: Request) -> None:
    permissions = ClientPermissions([], agent="a", asker=User("yes"))
    async with turn_of(permissions) as (ask, session):
        await ask(run(asked))
        permissions._asker = NoUser()
        assert await refused(permissions.check(terminal("id"), session))
        await permissions.check(started, session)
        assert await refused(permissions.check(started, session))


@pytest.mark.parametrize(
    ("asked", "started"),
    [
        ("a && b", terminal(shell="a; b")),
        ("a && b", terminal(shell="a | b")),
        ("a && b", terminal(shell="a b")),
        ("make", terminal(shell="make > log")),
        ("make > log", terminal(shell="make > other")),
        ("make", terminal(shell="A=b make")),
        ("ls '*.py'", terminal(shell="ls *.py")),
        ("ls '~/x'", terminal(shell="ls ~/x")),
        ("cd sub && make", terminal("make")),
        ("cd sub || make", Request("a", "execute", command=Command(line="make", cwd="/p/sub"))),
        ("cd sub; make", Request("a", "execute", command=Command(line="make", cwd="/p/sub"))),
        ("cd s* && make", Request("a", "execute", command=Command(line="make", cwd="/p/sub"))),
        ("bash -c 'make' > log", terminal("make")),
    ],
)
async def test_a_permission_does_not_cover_a_command_that_runs_otherwise(asked: object, started: Request) -> None:
    permissions = ClientPermissions([], agent="a", asker=User("yes"))
    async with turn_of(permissions) as (ask, session):
        await ask(run(asked))
        permissions._asker = NoUser()
        assert await refused(permissions.check(started, session))


async def test_a_deny_rule_overrides_a_turn_permission() -> None:
    rules: list[Rule] = []
    permissions = ClientPermissions(lambda: rules, agent="a", asker=User("yes"))
    async with turn_of(permissions) as (ask, session):
        await ask(edit("/p/a", content=[v1.Diff("/p/a", "new\n")]))
        await ask(run("ls; rm x"))
        rules += [deny("edit:a"), deny("execute:rm *")]
        assert await refused(permissions.check(write("/p/a"), session, change=Change("/p/a", None, b"new\n")))
        assert await refused(permissions.check(terminal(shell="ls; rm x"), session))
    assert [made.action for made in permissions.decisions] == ["allow", "allow", "deny", "deny"]


async def test_a_write_or_command_without_a_permission_request_is_judged_by_the_rules() -> None:
    permissions = ClientPermissions([allow("edit:src/**"), allow("a@execute:make *")], agent="a")
    async with turn_of(permissions) as (_, session):
        await permissions.check(write("/p/src/a"), session)
        await permissions.check(terminal("make", "test"), session)
        with pytest.raises(RequestError, match="Not permitted"):
            await permissions.check(write("/p/a"), session)
        with pytest.raises(RequestError, match="Not permitted"):
            await permissions.check(terminal(shell="make test; id"), session)
    assert [(made.action, made.rule) for made in permissions.decisions] == [
        ("allow", "edit:src/**"),
        ("allow", "a@execute:make *"),
        ("cancelled", None),
        ("cancelled", None),
    ]


async def test_the_user_is_asked_and_shown_the_change() -> None:
    user = User("allow-project")
    permissions = ClientPermissions([], agent="a", asker=user, remember=lambda *rule: None)
    async with turn_of(permissions) as (_, session):
        await permissions.check(write("/p/src/a"), session, change=Change("/p/src/a", b"old\n", b"new\n"))
        await permissions.check(write("/p/src/a"), session)
        await permissions.check(write("/p/new"), session, change=Change("/p/new", None, b"new\n"))
    first, second = user.asked
    assert [(shown.old_text, shown.new_text) for shown in first.diffs] == [("old\n", "new\n")]
    assert not second.diffs[0].old_text
    assert [option.option_id for option in first.permission.options] == [
        *("allow-once", "allow-session", "allow-project", "allow-project-wide"),
        *("reject-once", "reject-session", "reject-project"),
    ]
    assert permissions.decisions[1].rule == "edit:src/a"
    assert {made.tool_call_id for made in permissions.decisions} == {None}


async def test_always_is_offered_only_where_it_can_be_kept() -> None:
    user = User("allow-once")
    permissions = ClientPermissions([], agent="a", asker=user)
    async with turn_of(permissions) as (_, session):
        await permissions.check(write("/p/.git/hooks/x"), session)
        await permissions.check(terminal(shell="make; id"), session)
    for asked in user.asked:
        assert [option.kind for option in asked.permission.options] == ["allow_once", "reject_once"]


async def test_reading_below_the_roots_needs_no_rule_unless_one_is_about_it() -> None:
    ask_rule = parse_rule("read:private/**", "ask", "repository")
    permissions = ClientPermissions([deny("read:secrets/**"), ask_rule], agent="a")
    async with turn_of(permissions) as (_, session):
        await permissions.check(Request("", "read", "Read", paths=("/p/a",)), session)
        assert permissions.decisions == []
        assert await refused(permissions.check(Request("", "read", "Read", paths=("/p/secrets/a",)), session))
        assert await refused(permissions.check(Request("", "read", "Read", paths=("/p/private/a",)), session))


async def test_a_link_does_not_lead_around_a_rule(tmp_path: Path) -> None:
    project = tmp_path / "project"
    for folder in ("src", ".git/hooks", "vendor-real"):
        (project / folder).mkdir(parents=True)
    (project / "src" / "hooks").symlink_to(project / ".git" / "hooks")
    (project / "src" / "out").symlink_to(tmp_path)
    (project / "vendor").symlink_to(project / "vendor-real")
    (tmp_path / "door").symlink_to(project)
    permissions = ClientPermissions(
        [allow("edit:src/**"), allow("edit:vendor-real/**"), deny("edit:vendor/**")], agent="a"
    )
    async with turn_of(permissions, str(tmp_path / "door")) as (_, session):
        await permissions.check(write(str(tmp_path / "door" / "src" / "a")), session)
        await permissions.check(write(str(project / "src" / "a")), session)
        for path in ("src/hooks/pre-commit", "src/out/x", "vendor/a"):
            assert await refused(permissions.check(write(str(tmp_path / "door" / path)), session)), path
            assert await refused(permissions.check(write(str(project / path)), session)), path

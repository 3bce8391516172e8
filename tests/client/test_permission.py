"""Permission decisions of the client: by a rule, by the user, or no where no user can be asked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dragoman.agent import Agent, Turn
from dragoman.client import Session
from dragoman.client.permission import (
    AllowAll,
    Answer,
    Asker,
    ClientPermissions,
    Guarding,
    NoUser,
    Question,
    RefuseOpen,
)
from dragoman.errors import ConfigError, RequestError
from dragoman.policy import Command, Request, Rule, shell
from dragoman.schema import UNSET, v1
from dragoman.testing import linked
from dragoman.workspace import judging
from dragoman.workspace.judging import with_facts
from tests.client.permission_kit import FOUR, User, allow, chosen, deny, edit, refused, run, terminal, turn_of, write


class Silent:
    """A user who never answers; counts the questions and those that were withdrawn."""

    def __init__(self) -> None:
        self.asked = asyncio.Semaphore(0)
        self.left = 0

    async def ask(self, question: Question, session: Session) -> str | None:
        self.asked.release()
        try:
            await asyncio.Event().wait()
        finally:
            self.left += 1
        return "yes"


class Broken:
    async def ask(self, question: Question, session: Session) -> str | None:
        raise RuntimeError("the screen is gone")


@pytest.mark.rule(255, 256, 257)
@pytest.mark.parametrize(
    ("rules", "options", "expected", "action"),
    [
        ([allow("edit:src/**")], FOUR, "yes", "allow"),
        ([deny("edit")], FOUR, "no", "deny"),
        ([deny("edit")], FOUR[:3], "never", "deny"),
        ([deny("edit")], FOUR[:2], None, "deny"),
        ([allow("edit"), deny("edit:src/**")], FOUR, "no", "deny"),
    ],
)
async def test_a_rule_decides_with_the_narrowest_option_and_is_named(
    rules: list[Rule], options: tuple[v1.PermissionOption, ...], expected: str | None, action: str
) -> None:
    permissions = ClientPermissions(rules, agent="a", asker=Broken())
    async with turn_of(permissions) as (ask, session):
        assert chosen(await ask(edit(), options)) == expected
    [decision] = permissions.decisions
    deciding = rules[-1]
    assert (decision.action, decision.option_id, decision.rule) == (action, expected, deciding.text)
    assert decision.decided_by == f"rule {deciding.text} ({deciding.source})"
    assert (decision.session_id, decision.tool_call_id, decision.title) == (session.id, "call_1", "Edit")


async def test_the_decision_names_the_part_of_a_request_that_decided_it() -> None:
    permissions = ClientPermissions([allow("edit"), deny("execute:rm *")], agent="a")
    async with turn_of(permissions) as (ask, _):
        assert chosen(await ask(edit(raw_input={"command": "rm -r x"}))) == "no"
    assert [(made.kind, made.rule) for made in permissions.decisions] == [("execute", "execute:rm *")]


async def test_a_rule_never_answers_always_to_an_agent() -> None:
    permissions = ClientPermissions([allow("edit")], agent="a")
    async with turn_of(permissions) as (ask, _):
        assert chosen(await ask(edit(), FOUR[:1] + FOUR[2:])) is None
    assert [(made.action, made.decided_by) for made in permissions.decisions] == [("cancelled", "nobody")]


@pytest.mark.rule(261)
@pytest.mark.parametrize("user", [None, User("maybe"), User("always")])
async def test_an_option_of_an_unknown_kind_never_means_yes(user: User | None) -> None:
    permissions = ClientPermissions([allow("edit")], agent="a", asker=user)
    options = [v1.PermissionOption("maybe", "Maybe", "allow_for_a_while"), v1.PermissionOption("x", "X", "yes")]
    async with turn_of(permissions) as (ask, _):
        assert chosen(await ask(edit(), options)) is None
    assert permissions.decisions[0].action == "cancelled"


async def test_options_that_share_an_id_are_not_chosen() -> None:
    twins = [v1.PermissionOption("x", "Once", "allow_once"), v1.PermissionOption("x", "Always", "allow_always")]
    permissions = ClientPermissions([allow("edit")], agent="a", asker=User("x"))
    async with turn_of(permissions) as (ask, _):
        assert chosen(await ask(edit(), twins)) is None


@pytest.mark.rule(260)
@pytest.mark.parametrize(
    ("answer", "expected", "action", "decided_by"),
    [
        ("yes", "yes", "allow", "person"),
        ("no", "no", "deny", "person"),
        ("never", "never", "deny", "person"),
        (None, None, "cancelled", "person"),
        ("made up", None, "cancelled", "unknown option"),
    ],
)
async def test_without_a_rule_the_user_decides(
    answer: str | None, expected: str | None, action: str, decided_by: str
) -> None:
    user = User(answer)
    permissions = ClientPermissions([], agent="a", asker=user)
    async with turn_of(permissions) as (ask, _):
        assert chosen(await ask(edit(content=[v1.Diff("/p/src/a.py", "new", old_text="old")]))) == expected
    [question], [decision] = user.asked, permissions.decisions
    assert (decision.action, decision.decided_by, decision.option_id) == (action, decided_by, expected)
    assert question.request.paths == ("/p/src/a.py",)
    assert [shown.new_text for shown in question.diffs] == ["new"]
    assert [option.option_id for option in question.permission.options] == ["always", "yes", "never", "no"]
    assert question.why == "no rule allows it"


async def test_the_user_sees_the_exact_words_and_the_folder_of_a_command() -> None:
    user = User("no")
    async with turn_of(ClientPermissions([], agent="a", asker=user)) as (ask, _):
        await ask(v1.ToolCallPatch("c", kind="execute", raw_input={"command": ["make", "x y"], "cwd": "/tmp"}))
        await ask(run("make; id"))
    assert [(asked.argv, asked.shell, asked.cwd) for asked in user.asked] == [
        (("make", "x y"), None, "/tmp"),
        (None, "make; id", ""),
    ]


async def test_without_a_user_the_answer_is_no() -> None:
    permissions = ClientPermissions([allow("read")], agent="a")
    async with turn_of(permissions) as (ask, session):
        assert chosen(await ask(edit())) is None
        with pytest.raises(RequestError, match="no user can be asked"):
            await permissions.check(Request("", "edit", "Write x", paths=("/p/x",)), session)
    assert [(made.action, made.decided_by) for made in permissions.decisions] == [("cancelled", "nobody")] * 2


async def test_without_an_answer_in_time_the_request_is_cancelled_and_the_question_withdrawn() -> None:
    silent = Silent()
    permissions = ClientPermissions([], agent="a", asker=silent, ask_seconds=0.01)
    async with turn_of(permissions) as (ask, session):
        assert chosen(await ask(edit())) is None
        assert silent.left == 1
        with pytest.raises(RequestError, match="in time"):
            await permissions.check(Request("", "edit", "Write x", paths=("/p/x",)), session)
    assert [made.decided_by for made in permissions.decisions] == ["timeout", "timeout"]


async def test_a_question_that_fails_is_no(caplog: pytest.LogCaptureFixture) -> None:
    permissions = ClientPermissions([], agent="a", asker=Broken())
    async with turn_of(permissions) as (ask, session):
        assert chosen(await ask(edit())) is None
        with pytest.raises(RequestError, match="error while asking"):
            await permissions.check(Request("", "edit", "Write x", paths=("/p/x",)), session)
    assert "the screen is gone" in caplog.text
    assert all(made.is_unasked for made in permissions.decisions)


async def test_a_refusal_is_one_sentence_however_long_the_command() -> None:
    permissions = ClientPermissions([], agent="a")
    async with turn_of(permissions) as (_, session):
        with pytest.raises(RequestError) as refused:
            await permissions.check(Request("", "execute", "x" * 5000, command=Command(line="x" * 5000)), session)
    assert len(refused.value.message) < 300


@pytest.mark.rule(194, 258)
async def test_a_cancel_answers_every_pending_request_and_asks_no_more() -> None:
    silent = Silent()
    permissions = ClientPermissions([], agent="a", asker=silent)
    async with turn_of(permissions) as (ask, session):
        asking = [asyncio.ensure_future(ask(edit())) for _ in range(2)]
        checking = asyncio.ensure_future(permissions.check(Request("", "edit", "Write", paths=("/p/x",)), session))
        for _ in range(3):
            await silent.asked.acquire()
        await session.cancel()
        assert [chosen(outcome) for outcome in await asyncio.gather(*asking)] == [None, None]
        with pytest.raises(RequestError):
            await checking
        assert silent.left == 3
        with pytest.raises(RequestError):
            await permissions.check(Request("", "edit", "Write", paths=("/p/x",)), session)
        assert silent.left == 3
    assert [(made.action, made.decided_by) for made in permissions.decisions] == [("cancelled", "cancelled")] * 4


async def test_a_connection_that_ends_withdraws_the_question() -> None:
    silent = Silent()
    permissions = ClientPermissions([], agent="a", asker=silent)
    agent = Agent("asking")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        await turn.ask("May I?")

    async with linked(agent, permission=permissions.permission) as remote:
        session = await remote.new_session(cwd="/p")
        prompting = asyncio.ensure_future(session.prompt("go"))
        await silent.asked.acquire()
    await asyncio.wait([prompting])
    assert silent.left == 1
    assert [made.action for made in permissions.decisions] == ["cancelled"]
    prompting.cancelled() or prompting.exception()


@pytest.mark.parametrize("answer", ["always", "never"])
async def test_always_to_a_request_of_the_agent_is_the_agents_to_remember(answer: str) -> None:
    kept: list[object] = []
    user = User(answer)
    permissions = ClientPermissions([], agent="a", asker=user, remember=lambda *rule: kept.append(rule))
    async with turn_of(permissions) as (ask, _):
        assert [chosen(await ask(run("npm test"))) for _ in range(2)] == [answer, answer]
    assert (kept, permissions.rules) == ([], ())
    assert [asked.proposals for asked in user.asked] == [(), ()]


async def test_always_to_a_question_of_the_client_writes_the_one_rule_that_was_shown() -> None:
    kept: list[tuple[str, str, str]] = []
    user = User("allow-project")
    permissions = ClientPermissions([], agent="a", asker=user, remember=lambda *rule: kept.append(rule))
    async with turn_of(permissions) as (_, session):
        for words in (("npm", "test"), ("npm", "test"), ("npm", "test", "x")):
            await permissions.check(terminal(*words), session)
    assert kept == [("execute:npm test", "allow", "project"), ("execute:npm test x", "allow", "project")]
    assert [asked.proposals[0] for asked in user.asked] == [text for text, _, _ in kept]


async def test_once_is_not_remembered() -> None:
    kept: list[object] = []
    user = User("yes")
    async with turn_of(ClientPermissions([], agent="a", asker=user, remember=lambda *rule: kept.append(rule))) as (
        ask,
        _,
    ):
        await ask(run("npm test"))
        await ask(run("npm test"))
    assert (kept, len(user.asked)) == ([], 2)


async def test_what_always_asks_is_never_remembered() -> None:
    kept: list[object] = []
    user = User("allow-once")
    permissions = ClientPermissions([allow("edit")], agent="a", asker=user, remember=lambda *rule: kept.append(rule))
    async with turn_of(permissions) as (_, session):
        for _ in range(2):
            await permissions.check(write("/p/.git/hooks/pre-commit"), session)
            await permissions.check(terminal(shell="make && id"), session)
    assert (kept, len(user.asked)) == ([], 4)
    assert {asked.proposals for asked in user.asked} == {()}


async def test_an_answer_counts_even_if_it_cannot_be_kept(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*rule: object) -> None:
        raise ConfigError("rules.json: this is not JSON")

    user = User("allow-project")
    permissions = ClientPermissions([], agent="a", asker=user, remember=fail)
    async with turn_of(permissions) as (_, session):
        await permissions.check(terminal("npm", "test"), session)
        await permissions.check(terminal("npm", "test"), session)
    assert len(user.asked) == 1
    assert "this session only" in caplog.text


async def test_observers_see_every_decision_and_cannot_change_it(caplog: pytest.LogCaptureFixture) -> None:
    seen = []

    def watch(decision: object) -> None:
        seen.append(decision)
        raise RuntimeError("a broken observer")

    permissions = ClientPermissions([allow("edit")], agent="a", on_decision=watch)
    async with turn_of(permissions) as (ask, _):
        assert chosen(await ask(edit())) == "yes"
    assert seen == permissions.decisions
    assert "a broken observer" in caplog.text


async def test_rules_are_read_again_for_each_request() -> None:
    rules: list[Rule] = []
    permissions = ClientPermissions(lambda: rules, agent="a")
    async with turn_of(permissions) as (ask, _):
        assert chosen(await ask(edit())) is None
        rules.append(allow("edit"))
        assert chosen(await ask(edit())) == "yes"


async def test_the_user_is_shown_the_variables_that_are_set_for_a_command() -> None:
    user = User("allow-once")
    permissions = ClientPermissions([], agent="a", asker=user)
    async with turn_of(permissions) as (_, session):
        await permissions.check(Request("", "execute", "make", command=Command(("make",))), session, env={"TZ": "UTC"})
    assert [question.env for question in user.asked] == [{"TZ": "UTC"}]


# Askers, and what a program that runs the agent adds


class Writing(User):
    """A user who writes why."""

    async def ask(self, question: Question, session: Session) -> Any:
        await super().ask(question, session)
        return Answer(self.answer, reason="not today")


def guarded(asker: Asker | None, *rules: Rule, **members: Any) -> ClientPermissions:
    return ClientPermissions(rules, agent="a", asker=asker, guarding=Guarding(**members))


@pytest.mark.parametrize(
    ("asker", "option", "decided_by"),
    [
        (NoUser(), None, "nobody"),
        (AllowAll(), "yes", "--dangerously-allow-all"),
        (RefuseOpen(), "no", "--ask deny"),
        (None, None, "nobody"),
    ],
)
async def test_a_fixed_answer_decides_what_the_rules_leave_open(
    asker: Asker | None, option: str | None, decided_by: str
) -> None:
    permissions = ClientPermissions([deny("execute")], agent="a", asker=asker)
    async with turn_of(permissions) as (ask, _):
        assert chosen(await ask(edit())) == option
        assert chosen(await ask(run("make"))) == "no", "a deny holds"
    first, second = permissions.decisions
    assert first.decided_by == decided_by
    assert second.decided_by == "rule execute (rules.json)"
    assert [option.id for option in first.offered] == ["always", "yes", "never", "no"]
    assert len(permissions.unasked) == (1 if decided_by == "nobody" else 0)


@pytest.mark.parametrize("asker", [AllowAll(), RefuseOpen()])
async def test_a_fixed_answer_does_not_take_an_option_with_two_meanings(asker: Asker) -> None:
    unclear = [v1.PermissionOption("x", "X", kind) for kind in ("allow_once", "reject_once")]
    permissions = ClientPermissions([], agent="a", asker=asker)
    async with turn_of(permissions) as (ask, _):
        assert chosen(await ask(edit(), unclear)) is None


async def test_nothing_is_allowed_in_a_turn_that_was_cancelled() -> None:
    permissions = ClientPermissions([], agent="a", asker=AllowAll())
    async with turn_of(permissions) as (_, session):
        await session.cancel()
        assert await refused(permissions.check(write("/p/a"), session))
    assert permissions.decisions[0].decided_by == "cancelled"


@pytest.mark.parametrize("reads", [True, False])
async def test_the_words_of_the_user_go_to_an_agent_that_reads_them(reads: bool) -> None:
    permissions = guarded(Writing("no"), reads_reasons=lambda: reads)
    async with turn_of(permissions) as (ask, _):
        outcome = await ask(edit())
    assert isinstance(outcome, v1.SelectedPermissionOutcome)
    meta = {"dragoman": {"decidedBy": "person", "reason": "not today"}} if reads else UNSET
    assert outcome == v1.SelectedPermissionOutcome("no", meta=meta)


async def test_the_reason_of_a_refusal_is_stated_unless_the_program_does_not_want_that() -> None:
    for states in (True, False):
        permissions = guarded(None, deny("edit"), states_reasons=states)
        async with turn_of(permissions) as (ask, _):
            outcome = await ask(edit())
        assert isinstance(outcome, v1.SelectedPermissionOutcome)
        assert (outcome.meta is not UNSET) is states


async def test_files_are_reported_before_the_decision_that_permits_to_change_them() -> None:
    seen: list[object] = []
    permissions = ClientPermissions(
        [allow("edit:src/**"), deny("edit:secret/**")],
        agent="a",
        asker=User("yes"),
        on_decision=lambda decision: seen.append(decision.action),
        guarding=Guarding(before_permitted=seen.extend),
    )
    async with turn_of(permissions) as (ask, session):
        await ask(edit("/p/src/a.py"))
        await ask(edit("/p/b.py"))
        await permissions.check(write("/p/src/c.py"), session)
        await refused(permissions.check(write("/p/secret/d"), session))
    assert seen == ["/p/src/a.py", "allow", "/p/b.py", "allow", "/p/src/c.py", "allow", "deny"]


async def test_a_failure_before_a_permission_changes_no_decision() -> None:
    def fail(paths: object) -> None:
        raise OSError("no space")

    permissions = guarded(User("yes"), before_permitted=fail)
    async with turn_of(permissions) as (ask, _):
        assert chosen(await ask(edit())) == "yes"


async def test_what_is_allowed_in_advance_stays_in_the_sandbox() -> None:
    rules = [allow("execute:make")]
    named = ClientPermissions(rules, agent="a")
    everything = ClientPermissions(rules, agent="a", guarding=Guarding(allows_all=True))
    async with turn_of(named) as (_, session):
        assert await named.check_confined(terminal("make"), session)
        assert not await everything.check_confined(terminal("make"), session)
        assert not await everything.check_confined(terminal("touch", ".git/config"), session)
    assert everything.permitted.covers("/p/.git/config")


async def test_a_line_is_read_once_and_the_disk_is_asked_once_for_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    asked: list[Request] = []

    class Reader(shell._Reader):
        def __init__(self, text: str) -> None:
            read.append(text)
            super().__init__(text)

    def facts(rules: Any, request: Request, folders: Any) -> Request:
        asked.append(request)
        return with_facts(rules, request, folders)

    monkeypatch.setattr(shell, "_Reader", Reader)
    monkeypatch.setattr(judging, "with_facts", facts)
    permissions = guarded(User("yes"), deny("execute:rm *"))
    line = "npm test && cat .git/config > read-once.log"
    async with turn_of(permissions) as (ask, session):
        assert chosen(await ask(run(line))) == "yes"
        assert (read, len(asked)) == ([line], 1)
        await permissions.check(terminal(shell=line), session)
        assert (read, len(asked)) == ([line, line], 2), "the command that follows is another request"

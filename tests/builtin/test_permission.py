"""No tool runs without permission: what rules and modes decide, what the user is asked, what "always" means."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from dragoman.builtin.permission import ToolPermissions
from dragoman.builtin.refusals import UserAnswer
from dragoman.policy import Command, Request, Rule, judge, parse_rule
from dragoman.policy.decide import Option, common_proposals, describe_rule, offer_options
from dragoman.policy.modes import MODES
from dragoman.uistream import chunks as c
from tests.builtin.fixtures import FakeTool, open_fixture

ROOT = "/w"
HOME = "/home/me"


def request(kind: str, **members: Any) -> Request:
    return Request("dragoman", kind, root=ROOT, home=HOME, **members)


def noting(asked: list[object], answer: str) -> Callable[[Sequence[Option]], str]:
    """Gives the same answer to every question and keeps the questions."""

    def choose(options: Sequence[Option]) -> str:
        asked.append(options)
        return answer

    return choose


REQUESTS = {
    "read inside": request("read", paths=("/w/a.py",)),
    "read outside": request("read", paths=("/etc/passwd",)),
    "search inside": request("search", paths=("/w",)),
    "edit inside": request("edit", paths=("/w/src/a.py",)),
    "edit outside": request("edit", paths=("/tmp/a.py",)),
    "edit plan": request("edit", paths=("/w/PLAN.md",)),
    "edit hooks": request("edit", paths=("/w/.git/hooks/pre-commit",)),
    "run": request("execute", command=Command(line="npm test")),
    "run line": request("execute", command=Command(line="npm test && rm -rf build")),
    "fetch": request("fetch", host="example.org"),
    "mcp": request("other", mcp=("github", "create_issue")),
    "mcp look": request("read", mcp=("github", "get_issue")),
}
VERDICTS = {
    "ask": dict.fromkeys(REQUESTS, "ask") | {"read inside": "allow", "search inside": "allow"},
    "edit": dict.fromkeys(REQUESTS, "ask")
    | {"read inside": "allow", "search inside": "allow", "edit inside": "allow", "edit plan": "allow"},
    "plan": dict.fromkeys(REQUESTS, "deny")
    | {
        "read inside": "allow",
        "search inside": "allow",
        "edit plan": "allow",
        "read outside": "ask",
        "fetch": "ask",
        "mcp look": "ask",
    },
    "full": dict.fromkeys(REQUESTS, "allow") | {"edit hooks": "ask"},
}
VERDICTS["auto"] = VERDICTS["edit"]  # by its rules; where commands run is decided by `ToolPermissions`


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", REQUESTS)
def test_each_mode_decides_by_what_the_tool_can_do(mode: str, name: str) -> None:
    refused = MODES[mode].refusal(REQUESTS[name]) is not None
    verdict = "deny" if refused else judge(MODES[mode].rules((ROOT,)), REQUESTS[name]).action
    assert verdict == VERDICTS[mode][name]


@pytest.mark.parametrize("mode", MODES)
def test_a_deny_of_the_user_beats_every_mode(mode: str) -> None:
    rules = (*MODES[mode].rules((ROOT,)), parse_rule("edit:src/**", "deny", "pinned", "settings"))
    assert judge(rules, REQUESTS["edit inside"]).action == "deny"


def test_a_folder_with_a_star_in_its_name_is_not_taken_for_a_glob() -> None:
    assert judge(MODES["ask"].rules(("/w*",)), request("read", paths=("/why/a",))).action == "ask"
    assert judge(MODES["ask"].rules(("/w\nx",)), request("read", paths=("/w\nx/a",))).action == "ask"


def test_the_buttons_name_what_always_would_cover() -> None:
    options = offer_options(common_proposals([request("execute", command=Command(line="npm test --watch"))]))
    assert [(option.kind, option.label, option.rule, option.scope) for option in options] == [
        ("allow_once", "Allow once", None, None),
        ("allow_always", "Allow for this session: `npm test --watch`", "execute:npm test --watch", "session"),
        ("allow_always", "Allow for this project: `npm test --watch`", "execute:npm test --watch", "project"),
        ("allow_always", "Allow for this project: `npm test` with any arguments", "execute:npm test *", "project"),
        ("reject_once", "Reject", None, None),
        ("reject_always", "Reject for this session: `npm test --watch`", "execute:npm test --watch", "session"),
        ("reject_always", "Reject for this project: `npm test --watch`", "execute:npm test --watch", "project"),
    ]


@pytest.mark.parametrize("line", ["npm test; id", "npm test $(id)", "npm test > ~/.bashrc", "sudo npm test"])
def test_a_line_that_cannot_be_held_to_its_words_is_never_offered_for_always(line: str) -> None:
    options = offer_options(common_proposals([request("execute", command=Command(line=line))]))
    assert all("with any arguments" not in option.label for option in options)
    rules = [parse_rule(option.rule, "allow", "project") for option in options if option.rule and "allow" in option.id]
    assert judge(rules, request("execute", command=Command(line="npm test && id"))).action == "ask"


def test_several_things_at_once_can_only_be_allowed_once() -> None:
    options = offer_options(common_proposals([REQUESTS["run"], REQUESTS["fetch"]]))
    assert [option.kind for option in options] == ["allow_once", "reject_once"]


def test_rules_are_described_in_words() -> None:
    assert describe_rule("edit:/w/src/**") == "edits of /w/src/**"
    assert describe_rule("mcp:github:create") == "`create` of github"
    assert describe_rule("mcp:github") == "every tool of github"
    assert describe_rule("fetch:example.org") == "fetching from example.org"
    assert describe_rule("read") == "reading"


async def test_an_allowed_tool_runs_without_a_question(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        fixture.add(FakeTool("look", kind="read", request=REQUESTS["read inside"]))
        await fixture.prompt("call look")
        assert fixture.outcomes() == {"look": "output-available"}
        assert not any(isinstance(chunk, c.ToolApprovalRequest) for chunk in fixture.seen)


async def test_a_denied_tool_does_not_run_and_the_model_reads_why(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        fixture.add(FakeTool("make", request=REQUESTS["run"]))
        fixture.rules = [parse_rule("execute:npm *", "deny", "pinned", "settings.json")]
        await fixture.prompt("call make", "say {result}")
        assert fixture.tools["make"].called == []
        assert "execute:npm *" in fixture.texts()[0]


@pytest.mark.parametrize(
    ("choice", "state"),
    [
        ("allow-once", "output-available"),
        ("allow-project", "output-available"),
        ("reject-once", "output-denied"),
        ("reject-session", "output-denied"),
        (None, "output-denied"),
        ("never offered", "output-denied"),
    ],
)
async def test_only_a_clear_yes_lets_a_tool_run(tmp_path: Path, choice: str | None, state: str) -> None:
    async with open_fixture(tmp_path) as fixture:
        fixture.add(FakeTool("make", request=REQUESTS["run"]))
        fixture.answers = lambda options: choice
        await fixture.prompt("call make")
        assert fixture.outcomes() == {"make": state}
        response = next(chunk for chunk in fixture.seen if isinstance(chunk, c.ToolApprovalResponse))
        assert response.approved == (state == "output-available")


async def test_an_always_is_asked_once_and_remembered_with_its_scope(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        asked: list[object] = []
        fixture.add(FakeTool("make", request=REQUESTS["run"]))
        fixture.answers = noting(asked, "allow-project")
        await fixture.prompt("call make", "& call make", "call make")
        assert len(asked) == 1
        assert fixture.remembered == [("execute:npm test", "allow", "project")]
        assert len(fixture.tools["make"].called) == 3


async def test_a_reject_always_is_not_asked_again_in_the_session(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        asked: list[object] = []
        fixture.add(FakeTool("make", request=REQUESTS["run"]))
        fixture.answers = noting(asked, "reject-session")
        await fixture.prompt("call make", "call make")
        assert len(asked) == 1
        assert fixture.remembered == [("execute:npm test", "deny", "session")]


async def test_headless_to_ask_is_to_deny(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        fixture.can_ask = False
        fixture.add(FakeTool("make", request=REQUESTS["run"]))
        await fixture.prompt("call make", "say {result}")
        assert fixture.tools["make"].called == []
        assert "no user can be asked" in fixture.texts()[0]


async def test_one_question_is_open_at_a_time(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        open_questions, most = 0, 0

        async def answer(options: Sequence[Option]) -> str:
            nonlocal open_questions, most
            open_questions += 1
            most = max(most, open_questions)
            await fixture.until(c.ToolApprovalRequest, 1)
            open_questions -= 1
            return "allow-once"

        fixture.answers = answer
        fixture.add(FakeTool("a", request=REQUESTS["run"]), FakeTool("b", request=REQUESTS["fetch"]))
        await fixture.prompt("call a", "& call b")
        assert most == 1


DECIDED = {
    "the user": (UserAnswer("reject-once"), ["The user refused this call."]),
    "a question that the user closed": (UserAnswer(None, "cancelled"), ["The user cancelled this question"]),
    "no answer": (UserAnswer(), ["was not answered", "no user could be asked", "`execute:npm test`"]),
    "a rule of the client": (
        UserAnswer("reject-once", "rule execute (--deny)", "denied by rule execute (--deny)"),
        ["denied by rule execute (--deny)", "do without it"],
    ),
    "no user at the client": (
        UserAnswer("reject-once", "nobody", "no rule allows it, and no user can be asked"),
        ["no user can be asked", "`execute:npm test`"],
    ),
}


@pytest.mark.parametrize("name", DECIDED)
async def test_the_model_reads_who_refused_and_what_would_be_accepted(tmp_path: Path, name: str) -> None:
    answer, expected = DECIDED[name]
    async with open_fixture(tmp_path) as fixture:
        fixture.add(FakeTool("make", request=REQUESTS["run"]))
        fixture.answers = lambda options: answer
        await fixture.prompt("call make", "say {result}")
        assert fixture.tools["make"].called == []
        (text,) = fixture.texts()
        assert all(words in text for words in expected)
        assert ("user refused" in text) == (name == "the user")


async def test_a_refusal_about_a_protected_file_names_no_rule(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        fixture.can_ask = False
        fixture.add(FakeTool("hook", request=REQUESTS["edit hooks"]))
        await fixture.prompt("call hook", "say {result}")
        (text,) = fixture.texts()
        assert "is protected" in text
        assert "Only the user can permit it" in text


class Rules:
    """The rules of a session, which a test changes."""

    def __init__(self) -> None:
        self.now: list[Rule] = []

    def of(self, project: str) -> list[Rule]:
        return self.now


async def no_answer(options: Sequence[Option]) -> UserAnswer:
    return UserAnswer(None)


@pytest.mark.parametrize("narrowed", [False, True])
async def test_a_call_is_judged_once_while_nothing_changes(monkeypatch: pytest.MonkeyPatch, narrowed: bool) -> None:
    judged: list[Request] = []

    def counting(rules: Any, request: Request) -> Any:
        judged.append(request)
        return judge(rules, request)

    monkeypatch.setattr("dragoman.workspace.judging.judge", counting)
    rules, modes = Rules(), [MODES["full"]]
    permissions = ToolPermissions(cast("Any", rules), lambda: modes[-1], (ROOT,))
    if narrowed:
        permissions = permissions.narrowed(None)
    edit, look = REQUESTS["edit inside"], REQUESTS["read inside"]

    call = permissions.for_call()
    assert call.verdict(edit).action == call.verdict(look).action == "allow"
    assert (await call.decide((edit,), no_answer)).is_allowed
    assert judged == [edit, look], "the decision uses the first judgement"
    assert call.verdict(look).action == "allow"
    assert len(judged) == 3, "after the decision the files may be others"

    call = permissions.for_call()
    call.verdict(edit)
    rules.now.append(parse_rule("edit:src/**", "deny", "pinned", "settings"))
    assert (await call.decide((edit,), no_answer)).action == "deny", "a rule that came meanwhile holds"

    rules.now.clear()
    call = permissions.for_call()
    call.verdict(edit)
    modes.append(MODES["plan"])
    assert (await call.decide((edit,), no_answer)).action == "deny", "so does a mode"

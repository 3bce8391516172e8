"""Options, answers and decisions: one engine for the client and for the built-in agent."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.policy import Action, Command, Request, Rule, Verdict, judge, parse_rule
from dragoman.policy.decide import (
    ASKING_FAILED,
    CANCELLED,
    NO_USER,
    TIMEOUT,
    Option,
    Selection,
    choose,
    common_proposals,
    decide_by_answer,
    decide_by_rules,
    describe_rule,
    is_allowing,
    is_known_kind,
    judge_all,
    offer_options,
    option_for,
    rule_to_remember,
)

ALWAYS = Option("always", "Always", "allow_always", "edit:a", "project")
YES = Option("yes", "Yes", "allow_once")
NEVER = Option("never", "Never", "reject_always", "edit:a", "session")
NO = Option("no", "No", "reject_once")
MAYBE = Option("maybe", "Maybe", "allow_for_a_while")
FOUR = (ALWAYS, YES, NEVER, NO)
TWINS = (Option("x", "Once", "allow_once"), Option("x", "Always", "allow_always"))

RULE = Rule("allow", "edit:src/**", "pinned", "settings.json")
ALLOW = Verdict("allow", RULE, "allowed by a rule")
DENY = Verdict("deny", Rule("deny", "edit:src/**", "pinned", "settings.json"), "denied by a rule")
ASK = Verdict("ask", None, "no rule allows it")


def request(kind: str = "edit", **members: Any) -> Request:
    return Request("a", kind, f"do {kind}", root="/w", home="/home/me", **members)


RUN = request("execute", command=Command(line="npm test --watch"))
LINE = request("execute", command=Command(line="npm test; id"))
EDIT = request("edit", paths=("/w/src/a.py",))
HOOK = request("edit", paths=("/w/.git/hooks/pre-commit",))


@pytest.mark.rule(261)
@pytest.mark.parametrize(
    ("kind", "allows", "is_known"),
    [
        ("allow_once", True, True),
        ("allow_always", True, True),
        ("reject_once", False, True),
        ("reject_always", False, True),
        ("allow_for_a_while", False, False),
        ("allow", False, False),
        ("ALLOW_ONCE", False, False),
        ("", False, False),
    ],
)
def test_only_the_known_allowing_kinds_mean_yes(kind: str, allows: bool, is_known: bool) -> None:
    assert (is_allowing(kind), is_known_kind(kind)) == (allows, is_known)


@pytest.mark.parametrize(
    ("actions", "expected", "asked"),
    [
        ("", "allow", ""),
        ("allow", "allow", ""),
        ("allow allow", "allow", ""),
        ("deny", "deny", ""),
        ("allow deny", "deny", ""),
        ("ask deny", "deny", ""),
        ("ask", "ask", "0"),
        ("allow ask", "ask", "1"),
        ("ask allow ask", "ask", "0 2"),
    ],
)
def test_a_deny_wins_and_every_request_has_to_be_allowed(actions: str, expected: str, asked: str) -> None:
    verdicts: dict[str, Action] = {str(index): word for index, word in enumerate(actions.split())}  # type: ignore[misc]  # words of the table
    requests = [Request("a", "edit", title) for title in verdicts]
    verdict, to_ask = judge_all(requests, lambda each: Verdict(verdicts[each.title], None, f"why {each.title}"))
    assert verdict.action == expected
    assert [each.title for each in to_ask] == asked.split()


def test_the_verdict_about_several_requests_gives_the_reason_that_counts() -> None:
    given = {"edit": ALLOW, "execute": ASK, "fetch": DENY}
    requests = [Request("a", kind) for kind in given]

    def judge_one(each: Request) -> Verdict:
        return given[each.kind]

    assert judge_all(requests, judge_one)[0] == DENY
    assert judge_all(requests[:2], judge_one)[0] == ASK
    assert judge_all(requests[:1], judge_one)[0] == ALLOW
    assert judge_all([requests[0]] * 2, judge_one)[0].why == "allowed by a rule; allowed by a rule"
    assert judge_all([], judge_one)[0].why == "it needs no permission"


@pytest.mark.parametrize(
    ("requests", "keeps", "expected"),
    [
        (
            [RUN],
            True,
            [
                ("allow-once", "Allow once", "allow_once", None, None),
                (
                    "allow-session",
                    "Allow for this session: `npm test --watch`",
                    "allow_always",
                    "execute:npm test --watch",
                    "session",
                ),
                (
                    "allow-project",
                    "Allow for this project: `npm test --watch`",
                    "allow_always",
                    "execute:npm test --watch",
                    "project",
                ),
                (
                    "allow-project-wide",
                    "Allow for this project: `npm test` with any arguments",
                    "allow_always",
                    "execute:npm test *",
                    "project",
                ),
                ("reject-once", "Reject", "reject_once", None, None),
                (
                    "reject-session",
                    "Reject for this session: `npm test --watch`",
                    "reject_always",
                    "execute:npm test --watch",
                    "session",
                ),
                (
                    "reject-project",
                    "Reject for this project: `npm test --watch`",
                    "reject_always",
                    "execute:npm test --watch",
                    "project",
                ),
            ],
        ),
        ([RUN], False, [("allow-once",), ("allow-session",), ("reject-once",), ("reject-session",)]),
        ([LINE], True, [("allow-once",), ("reject-once",)]),
        ([HOOK], True, [("allow-once",), ("reject-once",)]),
        ([RUN, EDIT], True, [("allow-once",), ("reject-once",)]),
    ],
)
def test_always_is_offered_only_where_one_rule_expresses_it_and_something_keeps_it(
    requests: list[Request], keeps: bool, expected: list[tuple[str | None, ...]]
) -> None:
    options = offer_options(common_proposals(requests), keeps_rules=keeps)
    offered = [(each.id, each.label, each.kind, each.rule, each.scope) for each in options]
    assert [row[: len(wanted)] for row, wanted in zip(offered, expected, strict=True)] == expected
    assert len({option.id for option in options}) == len(options)


def test_the_scope_is_at_the_start_of_a_label_and_a_long_rule_is_cut_in_its_middle() -> None:
    (_, session, *_) = offer_options(["execute:echo " + "x" * 200 + " end"])
    assert session.label.startswith("Allow for this session: `echo xxx")
    assert session.label.endswith("xxx end`")
    assert "more characters" in session.label


def test_without_an_option_there_is_nothing_to_remember() -> None:
    assert rule_to_remember(None) is None
    assert rule_to_remember(Option("x", "X", "allow_always")) is None
    assert rule_to_remember(NEVER) == ("edit:a", "deny", "session")


@pytest.mark.rule(261)
@pytest.mark.parametrize(
    ("options", "option_id", "expected"),
    [
        (FOUR, "yes", Selection(YES, "person")),
        (FOUR, "never", Selection(NEVER, "person")),
        (FOUR, None, Selection(None, "person")),
        (FOUR, "made up", Selection(None, "unknown option")),
        (FOUR, "", Selection(None, "unknown option")),
        ((), "yes", Selection(None, "unknown option")),
        ((MAYBE,), "maybe", Selection(None, "unknown kind of option")),
        (TWINS, "x", Selection(None, "unknown kind of option")),
        ((YES, YES), "yes", Selection(YES, "person")),
    ],
)
def test_an_answer_counts_only_if_its_meaning_is_clear(
    options: tuple[Option, ...], option_id: str | None, expected: Selection
) -> None:
    assert choose(options, option_id) == expected


@pytest.mark.parametrize(
    ("verdict", "options", "expected"),
    [
        (ALLOW, FOUR, YES),
        (ALLOW, (ALWAYS, NO), None),
        (ALLOW, TWINS, None),
        (ALLOW, (MAYBE,), None),
        (DENY, FOUR, NO),
        (DENY, (YES, NEVER), NEVER),
        (DENY, (YES, ALWAYS), None),
        (ASK, FOUR, None),
    ],
)
def test_a_rule_answers_with_the_narrowest_option(
    verdict: Verdict, options: tuple[Option, ...], expected: Option | None
) -> None:
    assert option_for(verdict, options) == expected


@pytest.mark.parametrize(
    ("verdict", "option", "expected"),
    [
        (ALLOW, YES, ("allow", "rule edit:src/** (settings.json)", "edit:src/**", "yes", "allow_once")),
        (ALLOW, None, ("allow", "rule edit:src/** (settings.json)", "edit:src/**", None, None)),
        (DENY, NO, ("deny", "rule edit:src/** (settings.json)", "edit:src/**", "no", "reject_once")),
        (Verdict("deny", None, "plan mode"), None, ("deny", "plan mode", None, None, None)),
    ],
)
def test_a_decision_of_the_rules_names_the_rule_and_the_reason(
    verdict: Verdict, option: Option | None, expected: tuple[str | None, ...]
) -> None:
    decision = decide_by_rules(EDIT, verdict, option)
    stated = (decision.action, decision.decided_by, decision.rule, decision.option_id, decision.option_kind)
    assert stated == expected
    assert (decision.title, decision.kind, decision.reason) == ("do edit", "edit", verdict.why)
    assert decision.is_allowed == (verdict.action == "allow")
    assert not decision.was_asked
    assert not decision.is_unasked


def test_a_call_that_needs_no_permission_is_allowed_and_a_question_is_not_a_decision() -> None:
    assert decide_by_rules(None, judge_all([], lambda each: ASK)[0]).is_allowed
    with pytest.raises(ValueError, match="decide_by_answer"):
        decide_by_rules(EDIT, ASK)


@pytest.mark.parametrize(
    ("selection", "action", "reason", "was_asked", "is_unasked"),
    [
        (Selection(YES, "person"), "allow", "allowed by the user (no rule allows it)", True, False),
        (Selection(ALWAYS, "person"), "allow", "allowed by the user (no rule allows it)", True, False),
        (Selection(NO, "person"), "deny", "refused by the user (no rule allows it)", True, False),
        (Selection(None, "person"), "cancelled", "the user did not answer", True, False),
        (Selection(None, TIMEOUT), "cancelled", "the user did not answer in time", True, False),
        (Selection(None, NO_USER), "cancelled", "no rule allows it, and no user can be asked", False, True),
        (Selection(None, ASKING_FAILED), "cancelled", "an error while asking", False, True),
        (Selection(None, CANCELLED), "cancelled", "cancelled", False, False),
        (choose(FOUR, "made up"), "cancelled", "unknown option", True, False),
        (choose([MAYBE], "maybe"), "cancelled", "unknown kind of option", True, False),
    ],
)
def test_a_decision_of_the_user_states_what_was_answered(
    selection: Selection, action: str, reason: str, was_asked: bool, is_unasked: bool
) -> None:
    decision = decide_by_answer(EDIT, ASK, selection)
    assert (decision.action, decision.decided_by, decision.reason) == (action, selection.decided_by, reason)
    assert (decision.was_asked, decision.is_unasked) == (was_asked, is_unasked)
    assert decision.is_allowed == (action == "allow")
    assert decision.option_id == (selection.option.id if selection.option else None)
    assert decision.option_kind == (selection.option.kind if selection.option else None)
    assert (decision.title, decision.kind, decision.rule) == ("do edit", "edit", None)


@pytest.mark.parametrize("about", [RUN, EDIT, request("fetch", host="example.org"), request(mcp=("github", "create"))])
def test_every_rule_an_always_writes_covers_its_request(about: Request) -> None:
    for option in offer_options(common_proposals([about])):
        remembered = rule_to_remember(option)
        if remembered is not None:
            text, action, scope = remembered
            assert judge([parse_rule(text, action, scope)], about).action == action


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("execute:npm test", "`npm test`"),
        ("execute:npm test *", "`npm test` with any arguments"),
        ("edit:/w/src/**", "edits of /w/src/**"),
        ("mcp:github:create", "`create` of github"),
        ("mcp:github", "every tool of github"),
        ("fetch:example.org", "fetching from example.org"),
        ("read", "reading"),
        ("think", "think"),
    ],
)
def test_a_rule_is_described_in_words_for_a_button(text: str, words: str) -> None:
    assert describe_rule(text) == words

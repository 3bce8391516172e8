"""Which rule decides, and what "always" may mean."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import ConfigError
from dragoman.policy import Command, Request, Rule, Scope, ignored_rules, judge, parse_rule, proposals

ROOT = "/p"


def request(kind: str = "edit", agent: str = "gemini", **more: object) -> Request:
    return Request(agent, kind, root=ROOT, home="/home/u", **more)  # type: ignore[arg-type]


def rule(text: str, action: str = "allow", scope: Scope = "flag") -> Rule:
    return parse_rule(text, action, scope, scope)


EDIT = request(paths=("src/a.py",))


def test_nothing_is_allowed_until_the_user_writes_a_rule() -> None:
    kinds = ("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other", "new")
    for kind in kinds:
        assert judge([], request(kind)).action == "ask"


def test_the_verdict_names_the_rule_that_decided() -> None:
    allowing = rule("edit:src/**")
    verdict = judge([rule("read"), allowing], EDIT)
    assert (verdict.action, verdict.rule) == ("allow", allowing)
    assert verdict.why == "allowed by rule edit:src/** (flag)"


@pytest.mark.parametrize("denying", ["edit", "edit:src/**", "*", "gemini@edit", "edit:src/a.py"])
@pytest.mark.parametrize("scope", ["pinned", "project", "session", "flag", "repository"])
def test_a_deny_of_any_scope_beats_every_allow(denying: str, scope: Scope) -> None:
    rules = [rule("*"), rule("edit:src/a.py", scope="session"), rule(denying, "deny", scope)]
    for order in itertools.permutations(rules):
        assert judge(order, EDIT) == judge(rules, EDIT)
        assert judge(order, EDIT).action == "deny"


def test_an_ask_beats_an_allow() -> None:
    verdict = judge([rule("edit"), rule("edit:src/**", "ask", "repository")], EDIT)
    assert (verdict.action, verdict.rule and verdict.rule.text) == ("ask", "edit:src/**")


def test_a_repository_can_deny_and_ask_and_never_allow() -> None:
    shipped = [rule("edit", scope="repository"), rule("execute:npm test", scope="repository")]
    verdict = judge(shipped, EDIT)
    assert (verdict.action, verdict.rule) == ("ask", None)
    assert "repository" in verdict.why
    assert ignored_rules([*shipped, rule("read")]) == tuple(shipped)
    assert judge([rule("edit"), *shipped], EDIT).action == "allow"


def test_a_rule_for_an_agent_is_for_that_agent_alone() -> None:
    assert judge([rule("gemini@edit")], EDIT).action == "allow"
    assert judge([rule("claude@edit")], EDIT).action == "ask"
    assert judge([rule("Claude Code@edit")], request(agent="Claude Code")).action == "allow"


@pytest.mark.parametrize(
    ("text", "covered", "not_covered"),
    [
        ("fetch:example.org", "example.org", "evil.org"),
        ("fetch:example.org", "EXAMPLE.org.", "a.example.org"),
        ("fetch:*.example.org", "a.b.example.org", "example.org"),
        ("fetch:*.example.org", "a.example.org", "evilexample.org"),
        ("fetch:localhost", "localhost", "localhost.evil.org"),
    ],
)
def test_hosts_are_compared_by_their_labels(text: str, covered: str, not_covered: str) -> None:
    assert judge([rule(text)], request("fetch", host=covered)).action == "allow"
    assert judge([rule(text)], request("fetch", host=not_covered)).action == "ask"
    assert judge([rule(text)], request("fetch")).action == "ask"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mcp", "allow"),
        ("mcp:github", "allow"),
        ("mcp:github:get_*", "allow"),
        ("mcp:*:get_issue", "allow"),
        ("mcp:github:delete_*", "ask"),
        ("mcp:gitlab", "ask"),
        ("other", "allow"),
    ],
)
def test_mcp_tools_are_named_by_server_and_tool(text: str, expected: str) -> None:
    assert judge([rule(text)], request("other", mcp=("github", "get_issue"))).action == expected
    assert judge([rule("mcp")], request("other")).action == "ask"


def test_an_unknown_kind_is_covered_by_everything_alone() -> None:
    assert judge([rule("other"), rule("edit")], request("teleport")).action == "ask"
    assert judge([rule("*")], request("teleport")).action == "allow"


@pytest.mark.parametrize("scope", ["pinned", "project", "session", "repository"])
@pytest.mark.parametrize("text", ["*", "gemini@*", "execute:*"])
def test_everything_is_allowed_only_when_typed(text: str, scope: Scope) -> None:
    with pytest.raises(ConfigError, match=r"rules\.json.*typed as a flag"):
        parse_rule(text, "allow", scope, "rules.json")
    assert parse_rule(text, "allow", "flag").text == text
    assert parse_rule(text, "deny", scope).action == "deny"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "form"),
        ("edit src", "form"),
        ("EDIT", "form"),
        ("edits", "not of a known kind; the kinds are read, edit"),
        ("edit:", "nothing after the colon"),
        ("*:x", "after `\\*`"),
        ("think:x", "nothing to compare"),
        ("switch_mode:x", "nothing to compare"),
        ("mcp::x", "not name a server"),
        ("mcp:x:", "not name a server"),
        ("fetch:https://x/", "not name a host"),
        ("a@b@edit", "form"),
        ("edit:a\nb", "form"),
    ],
)
def test_a_rule_that_cannot_be_parsed_names_the_problem_and_the_place(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        parse_rule(text, "allow", "flag", "--allow")
    assert "--allow" in str(caught.value)


def test_an_action_is_one_of_three() -> None:
    with pytest.raises(ConfigError, match="allow, deny or ask"):
        parse_rule("edit", "permit", "flag")


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (request("execute", command=Command(line="npm test")), ("execute:npm test",)),
        (request("execute", command=Command(line="npm test -- x")), ("execute:npm test -- x", "execute:npm test *")),
        (request("execute", command=Command(("bash", "-lc", "npm run 'a b'"))), ("execute:npm run 'a b'",)),
        (request("execute", command=Command(line="cd web && echo one")), ("execute:echo one",)),
        (request("execute", command=Command(line="docker compose up -d")), ("execute:docker compose up -d",)),
        (
            request("execute", command=Command(line="python -m pytest -q 2>&1 | tail -20")),
            ("execute:python -m pytest -q", "execute:python -m pytest *"),
        ),
        (request("execute", command=Command(line="cd web && git grep -nO x")), ("execute:git grep -nO x",)),
        (
            request("execute", command=Command(("git", "commit", "-m", "it's"))),
            ('execute:git commit -m "it\'s"', "execute:git commit *"),
        ),
        (request("execute", command=Command(line="sudo npm test")), ("execute:sudo npm test",)),
        (request("execute", command=Command(line="npm test; id")), ()),
        (request("execute", command=Command(line="npm test", cwd="/tmp")), ()),
        (request("execute", command=Command(("echo", "a\nb"))), ()),
        (request("execute", command=Command(line="touch .git/hooks/x")), ()),
        (request("execute"), ()),
        (request(paths=("/p/src/a.py",)), ("edit:src/a.py", "edit:src/**")),
        (request(paths=("a.py",)), ("edit:a.py",)),
        (request(paths=("src/a", "src/x/b")), ("edit:src/**",)),
        (request(paths=("src/a", "doc/b")), ()),
        (request(paths=("/tmp/a",)), ("edit:/tmp/a",)),
        (request(paths=("src/*.py",)), ()),
        (request(paths=(".git/hooks/x",)), ()),
        (request(), ()),
        (request("read"), ("read",)),
        (request("fetch", host="Example.org"), ("fetch:example.org",)),
        (request("fetch"), ()),
        (request("other", mcp=("github", "get")), ("mcp:github:get", "mcp:github")),
        (request("other"), ()),
        (request("switch_mode"), ()),
        (request("think"), ("think",)),
    ],
)
def test_always_means_the_narrowest_rule_first_or_nothing(asked: Request, expected: tuple[str, ...]) -> None:
    assert proposals(asked) == expected
    for text in expected:
        assert judge([parse_rule(text, "allow", "project")], asked).action == "allow"


words = st.text(alphabet="abc/.*$;'\" -=~", min_size=1, max_size=8)
requests = st.one_of(
    st.builds(
        lambda kind, paths: request(kind, paths=tuple(paths)),
        st.sampled_from(["edit", "read", "delete"]),
        st.lists(words, max_size=3),
    ),
    st.builds(lambda argv: request("execute", command=Command(tuple(argv))), st.lists(words, min_size=1, max_size=4)),
    st.builds(lambda line: request("execute", command=Command(line=line)), st.text(max_size=20)),
)
texts = st.sampled_from(
    ["*", "edit", "read", "execute", "edit:**", "execute:a *", "execute:a b", "delete:a/**", "execute:*", "gemini@edit"]
)
rules_lists = st.lists(st.builds(rule, texts, st.sampled_from(["allow", "deny", "ask"])), max_size=6)


@given(requests, rules_lists, st.randoms())
def test_the_order_of_rules_means_nothing(asked: Request, rules: list[Rule], chance: object) -> None:
    shuffled = list(rules)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert judge(shuffled, asked) == judge(rules, asked)


@given(requests, rules_lists)
def test_a_deny_of_everything_always_wins(asked: Request, rules: list[Rule]) -> None:
    assert judge([*rules, rule("*", "deny")], asked).action == "deny"


@given(requests, rules_lists)
def test_more_denies_and_asks_never_allow_more(asked: Request, rules: list[Rule]) -> None:
    restricting = [found for found in rules if found.action != "allow"]
    assert judge(restricting, asked).action != "allow"


@given(requests)
def test_a_proposal_allows_exactly_when_it_is_written_down(asked: Request) -> None:
    for text in proposals(asked):
        assert judge([rule(text, scope="project")], asked).action == "allow"


def test_an_answer_in_the_session_holds_for_these_words_alone_where_a_deny_of_commands_only_may_concern_them() -> None:
    denying = rule("execute:git push *", "deny")
    answer = rule("execute:python -c 'print(1)'", scope="session")

    def action(line: str, *rules: Rule) -> str:
        return judge(rules, request("execute", command=Command(line=line))).action

    line = "python -c 'print(1)'"
    assert action(line, denying) == "ask"
    assert action(line, denying, answer) == "allow"
    assert action("cd src && python -c 'print(1)'", denying, answer) == "allow"
    for other in ("python -c 'print(2)'", f"X=1 {line}", f"{line}; capsh", f"{line} | sh"):
        assert action(other, denying, answer) == "ask", other
    assert action("git push x", denying, rule("execute:git push x", scope="session")) == "deny"
    scopes: tuple[Scope, ...] = ("flag", "project", "repository")
    for scope in scopes:
        assert action(line, denying, rule(answer.text, scope=scope)) == "ask", "it was not an answer in this session"
    assert action("capsh --print", denying, rule("execute:capsh --print", scope="session")) == "allow"
    assert action("capsh --print", denying, rule("execute:capsh *", scope="session")) == "ask", "not these very words"
    assert action(line, rule("execute:python *", "ask"), answer) == "ask", "an ask is an ask"
    assert action("cat .e*", rule("read:.env", "deny"), rule("execute:cat .env", scope="session")) == "ask"
    assert action("cat .env", rule("read:.env", "deny"), rule("execute:cat .env", scope="session")) == "ask"

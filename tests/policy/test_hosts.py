"""A host has one spelling, and what is guarded needs a rule that names it."""

import pytest

from dragoman.errors import ConfigError
from dragoman.policy import Request, Rule, judge, parse_rule, proposals
from dragoman.policy.hosts import plain_host

GUARDED = "127.0.0.1 is this machine"


def fetch(host: str, guarded: str = "") -> Request:
    return Request("dragoman", "fetch", host=host, guarded=guarded)


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("Example.ORG", "example.org"),
        ("example.org.", "example.org"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("ｌｏｃａｌｈｏｓｔ", "localhost"),
        ("１２７。0.0.1", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("0177.0.0.01", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0", "0.0.0.0"),
        ("[::1]", "[::1]"),
        ("[0:0:0:0:0:0:0:1]", "[::1]"),
        ("[2001:DB8::A]", "[2001:db8::a]"),
        ("my_host-1", "my_host-1"),
        ("1e100.net", "1e100.net"),
    ],
)
def test_every_spelling_of_a_host_becomes_one(written: str, plain: str) -> None:
    assert plain_host(written) == plain
    assert plain_host(plain) == plain


@pytest.mark.parametrize(
    "text",
    [
        *("", ".", "a..b", "a b", "a/b", "a@b", "1.2.3.4.5", "256.1.1.1", "1.2.3.256", "4294967296", "09.1.1.1"),
        *("a.0x1g.1", "[::1", "[fe80::1%eth0]", "[1.2.3.4]", "x" * 64, ".".join(["x" * 60] * 5), "☃" * 70, "a%00b"),
    ],
)
def test_a_text_that_is_not_a_host_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not |names a"):
        plain_host(text)


@pytest.mark.parametrize(
    ("rule", "host"),
    [
        ("fetch:127.0.0.1", "0x7f000001"),
        ("fetch:bücher.example", "xn--bcher-kva.example"),
        ("fetch:*.bücher.example", "www.xn--bcher-kva.example"),
        ("fetch:[2001:DB8:0:0::1]", "[2001:db8::1]"),
    ],
)
def test_a_deny_holds_in_every_spelling(rule: str, host: str) -> None:
    assert judge([parse_rule(rule, "deny", "project")], fetch(host)).action == "deny"
    assert judge([parse_rule(rule, "deny", "project")], fetch("example.org")).action == "ask"


def test_a_rule_about_a_host_that_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="not an IPv4 address"):
        parse_rule("fetch:1.2.3.400", "deny", "project")


@pytest.mark.parametrize(
    ("rules", "action"),
    [
        ([], "deny"),
        ([Rule("allow", "fetch", "project")], "deny"),
        ([Rule("allow", "*", "flag", "mode full")], "deny"),
        ([Rule("allow", "fetch:127.0.0.2", "project")], "deny"),
        ([Rule("allow", "fetch:*.0.0.1", "project")], "deny"),
        ([Rule("allow", "other@fetch:127.0.0.1", "project")], "deny"),
        ([Rule("allow", "fetch:127.0.0.1", "repository")], "deny"),
        ([Rule("ask", "fetch:127.0.0.1", "repository")], "deny"),
        ([Rule("allow", "fetch:127.0.0.1", "project"), Rule("deny", "fetch", "pinned")], "deny"),
        ([Rule("allow", "fetch:127.0.0.1", "project")], "allow"),
        ([Rule("allow", "fetch:127.1", "flag")], "allow"),
        ([Rule("allow", "dragoman@fetch:127.0.0.1", "session")], "allow"),
        ([Rule("ask", "fetch:127.0.0.1", "pinned")], "ask"),
        ([Rule("ask", "fetch:127.0.0.1", "pinned"), Rule("allow", "*", "flag")], "ask"),
    ],
)
def test_what_is_guarded_needs_a_rule_of_the_user_that_names_it(rules: list[Rule], action: str) -> None:
    verdict = judge(rules, fetch("127.0.0.1", GUARDED))
    assert verdict.action == action
    if action == "deny" and verdict.rule is None:
        assert verdict.why.startswith(GUARDED)
        assert verdict.why.endswith("fetch:127.0.0.1")


def test_always_is_offered_in_the_plain_spelling() -> None:
    assert proposals(fetch("BÜCHER.example.")) == ("fetch:xn--bcher-kva.example",)

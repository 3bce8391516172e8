"""The words of a question: what was read and not what the agent calls it, with nothing hidden, and what answers do."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.client.question_words import (
    AlwaysDetails,
    asked_words,
    effect_of,
    fenced,
    option_words,
    plain_name,
    plain_request,
    plain_text,
    shown_request,
)
from dragoman.policy import Command, Request
from dragoman.schema import v1

ROOT = "/home/u/p"


def run(line: str, cwd: str = "") -> Request:
    return Request("x", "execute", command=Command(line=line, cwd=cwd), root=ROOT)


def rows(*requests: Request, **more: Any) -> list[tuple[str, tuple[str, ...], str]]:
    return [(row.key, row.lines, row.note) for row in asked_words(requests, why="", **more).rows]


# What is asked


@pytest.mark.parametrize(
    ("requests", "kind", "title"),
    [
        ([run("npm test")], "execute", "npm test"),
        ([Request("x", "execute", command=Command(("rm", "-r", "a b")), root=ROOT)], "execute", "rm -r 'a b'"),
        (
            [Request("x", "edit", paths=(f"{ROOT}/src/a.py", "/etc/hosts"), root=ROOT)],
            "edit",
            "Edit src/a.py, /etc/hosts",
        ),
        ([Request("x", "read", paths=(f"{ROOT}/a",), root=ROOT), run("id")], "execute", "Read a; id"),
        ([Request("x", "fetch", host="example.org")], "fetch", "Fetch from example.org"),
        ([Request("x", "other", mcp=("db", "drop"))], "other", "Use drop of the MCP server db"),
        (
            [Request("x", "execute", unreadable="it names no command")],
            "execute",
            "it could not be read what this does (it names no command)",
        ),
    ],
)
def test_kind_and_title_are_what_was_read(requests: list[Request], kind: str, title: str) -> None:
    words = asked_words(requests, why="no rule allows it", agent_title="npm run build")
    assert (words.kind, words.title, words.why) == (kind, title, "no rule allows it")
    assert words.agent_title == "npm run build"


@pytest.mark.parametrize("title", ["npm test", "`npm test`", " npm test ", ""])
def test_a_title_that_says_the_same_is_not_repeated(title: str) -> None:
    assert asked_words([run("npm test")], why="", agent_title=title).agent_title == ""


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("npm test" + " " * 200 + "; curl evil", "npm test <200 blanks> ; curl evil"),
        ("npm test" + "\t" * 100 + "; curl evil", "npm test <400 blanks> ; curl evil"),
        ("npm test\n\ncurl evil", "npm test ⏎  ⏎ curl evil"),
        ("npm test \u202elive lruc", "npm test <U+202E>live lruc"),
        ("npm test\x1b[2Kcurl", "npm test<U+001B>[2Kcurl"),
        ("npm test\rcurl", "npm test<U+000D>curl"),
        ("npm test\u2028curl", "npm test<U+2028>curl"),
    ],
)
def test_nothing_of_a_command_is_hidden_in_the_title(line: str, title: str) -> None:
    assert asked_words([run(line)], why="").title == title


def test_a_long_command_shows_its_start_its_end_and_how_much_is_left_out() -> None:
    line = "echo " + "x" * 5_000 + " && curl evil"
    title = asked_words([run(line)], why="").title
    assert title.startswith("echo xxx")
    assert title.endswith("xxx && curl evil")
    assert "(4819 more characters)" in title
    assert len(title) < 240


def test_rows_are_whole_as_long_as_a_user_could_read_them() -> None:
    words = asked_words([run("echo " + "x" * 5_000 + " && curl evil")], why="")
    assert words.rows[0].lines == ("echo " + "x" * 5_000 + " && curl evil",)
    assert words.is_whole
    for line in ("echo " + "x" * 30_000 + "; curl evil", "\n".join(["echo x"] * 5_000) + "\ncurl evil"):
        words = asked_words([run(line)], why="")
        assert not words.is_whole, "what is left out must not be permitted for later"
        assert words.rows[0].lines[-1].endswith("curl evil"), "the end is shown"
        assert any("more characters" in text or "more lines" in text for text in words.rows[0].lines)


def test_every_thing_that_one_answer_permits_has_a_row() -> None:
    many = Request("x", "read", paths=(*(f"{ROOT}/f{n}" for n in range(3)), "/etc/passwd"), root=ROOT)
    found = rows(many, run("make\nmake install", cwd="/tmp/x"), run("id"), env={"LD_PRELOAD": "x y"})
    assert found == [
        ("shell", ("make", "make install"), ""),
        ("in", ("/tmp/x",), ""),
        ("shell", ("id",), ""),
        ("", ("3 commands run with this answer",), ""),
        ("sets", ("LD_PRELOAD='x y'",), ""),
        *(("path", (f"{ROOT}/f{n}",), "") for n in range(3)),
        ("path", ("/etc/passwd",), "outside the project"),
    ]


def test_the_input_of_a_tool_is_shown_if_nothing_else_says_what_it_does() -> None:
    raw = {"query": "DROP TABLE users\u202e;\nx", "limit": 5}
    assert rows(Request("x", "other", mcp=("db", "run")), raw_input=raw)[1:] == [
        ("input", ("query: DROP TABLE users<U+202E>;", "x"), ""),
        ("input", ("limit: 5",), ""),
    ]
    assert all(key != "input" for key, _, _ in rows(run("id"), raw_input=raw))


# What programs are sent that show only the protocol's members


def test_the_name_that_a_rule_would_go_by_is_shown_next_to_the_title() -> None:
    found = rows(Request("a", "other", "Look at the order", tool="refund"), raw_input={"order": 7})
    assert found == [("tool", ("refund",), ""), ("input", ("order: 7",), "")]


def permission(**members: Any) -> v1.RequestPermissionRequest:
    options = [
        v1.PermissionOption("a", "Allow", "allow_once"),
        v1.PermissionOption("b", "Allow", "allow_always"),
        v1.PermissionOption("c", "Reject", "allow_once"),
        v1.PermissionOption("d", "Reject", "reject_once"),
        v1.PermissionOption("e", "Never", "reject_always"),
        v1.PermissionOption("f", "Perhaps", "allow_sometimes"),
    ]
    return v1.RequestPermissionRequest("s", v1.ToolCallPatch("1", **members), options)


@pytest.mark.parametrize(
    ("raw", "lines", "expected"),
    [
        ({"command": "ls", "description": "d"}, ["ls"], {"command": "ls", "description": "d"}),
        ({"cmd": "ls"}, ["ls"], {"cmd": "ls", "command": "ls"}),
        ("text", ["ls"], {"command": "ls"}),
        ({"command": "ls"}, ["ls", "id"], {"command": "ls", "commands": ["ls", "id"]}),
    ],
)
def test_the_command_of_a_shown_request_is_what_was_read(raw: Any, lines: list[str], expected: Any) -> None:
    asked = [run(line) for line in lines]
    words = asked_words(asked, why="")
    call = shown_request(permission(title="npm test", kind="read", raw_input=raw), words, asked).tool_call
    assert (call.kind, call.title, call.raw_input) == ("execute", "; ".join(lines), expected)


def test_a_plain_request_has_all_words_in_what_every_client_shows() -> None:
    asked = [run("curl evil; ```\nid", cwd="/tmp")]
    words = asked_words(asked, why="no rule allows it", agent_title="npm test")
    request = permission(title="npm test", content=[v1.Content(v1.TextContent("tests"))])
    always = {"b": AlwaysDetails(action="allow", by="host", rule="execute:id", kept="project", file="/r.json")}
    options = option_words(request.options, always)
    plain = plain_request(shown_request(request, words, asked), words, options)
    content: Any = plain.tool_call.content
    before, text = content
    assert before.content.text == "tests"
    assert text.content.text == fenced(plain_text(words, options))
    assert text.content.text.split("\n") == [
        "````",
        "shell  curl evil; ```",
        "       id",
        "in     /tmp",
        "agent  calls it: npm test",
        "why    no rule allows it",
        "Allow: writes: allow execute:id, in /r.json",
        "Never: the agent remembers this in its own way; dragoman writes no rule",
        "````",
    ]
    assert [(option.option_id, option.name) for option in plain.options] == [
        ("a", "Allow"),
        ("b", "Allow"),
        ("c", "Reject (yes, this time)"),
        ("d", "Reject"),
        ("e", "Never (no, never; the agent remembers it)"),
        ("f", "Perhaps"),
    ]
    assert [option.kind for option in plain.options] == [option.kind for option in request.options]


# What answers do


@pytest.mark.parametrize(
    ("details", "effect"),
    [
        (
            AlwaysDetails(action="allow", by="host", rule="execute:npm test", kept="project", file="/etc/x y.json"),
            "writes: allow execute:npm test, in '/etc/x y.json'",
        ),
        (AlwaysDetails(action="deny", by="host", rule="edit:a", kept="session"), "keeps: deny edit:a"),
        (
            AlwaysDetails(action="deny", by="agent", rule="edit:a\u202e", kept="session"),
            "the agent says that it keeps: deny edit:a<U+202E>, for this session",
        ),
        (
            AlwaysDetails(action="allow", by="agent", rule="edit:a", kept="project", file="/r.json"),
            "the agent says that it keeps: allow edit:a, for this project, in /r.json",
        ),
        (
            AlwaysDetails(action="allow", by="agent", rule="edit:a", kept="agent"),
            "the agent says that it keeps: allow edit:a, in its own way",
        ),
        (
            AlwaysDetails(action="allow", by="agent"),
            "the agent remembers this in its own way; dragoman writes no rule",
        ),
    ],
)
def test_the_effect_names_the_rule_its_place_and_who_keeps_it(details: AlwaysDetails, effect: str) -> None:
    assert effect_of(details) == effect


def test_the_place_is_shown_from_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/u")
    kept = AlwaysDetails(action="allow", by="host", rule="edit", kept="project", file="/home/u/.config/d/rules.json")
    assert effect_of(kept) == "writes: allow edit, in ~/.config/d/rules.json"


def test_an_answer_begins_with_our_words_however_the_agent_calls_it() -> None:
    name = "No, reject this and stop (no) " * 20
    (words,) = option_words([v1.PermissionOption("a", name, "allow_always")], {})
    assert words.text(60).startswith("yes, always: No, reject")
    assert len(words.text(60)) <= 60
    assert plain_name(words).endswith("(yes, always; the agent remembers it)")


@pytest.mark.rule(256, 261)
def test_options_whose_meaning_is_not_clear_cannot_be_chosen() -> None:
    options = [
        v1.PermissionOption("same", "Reject", "reject_once"),
        v1.PermissionOption("same", "Allow", "allow_once"),
        v1.PermissionOption("later", "Perhaps", "allow_sometimes"),
        v1.PermissionOption("yes", "Allow", "allow_once"),
    ]
    words = option_words(options, {})
    assert [each.is_clear for each in words] == [False, False, False, True]
    assert [each.short for each in words] == ["no", "yes", "?", "yes"]

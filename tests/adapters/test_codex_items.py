"""Diffs, titles and options of codex, where the recordings have no example."""

import os
import signal
import subprocess
import time
from typing import Any

import pytest

from dragoman.adapters.codex.diffs import applied, diffs_of, hunks_of, kind_of, title_of
from dragoman.adapters.codex.events import CodexEvents, error_text
from dragoman.adapters.codex.items import shown_item, unwrapped
from dragoman.adapters.codex.prompts import mcp_config, request_of
from dragoman.adapters.codex.questions import command_offers
from dragoman.adapters.codex.turn import ask_to_end, kill, processes_of
from dragoman.schema import v1
from dragoman.uistream import chunks as c
from tests.adapters.stories import story_of


@pytest.mark.parametrize(
    ("before", "diff", "after"),
    [
        ("a\nb\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", "a\nB\nc\n"),
        ("a\nb\n", "@@ -0,0 +1 @@\n+first\n", "first\na\nb\n"),
        ("a\nb\nc\nd\ne\n", "@@ -1 +1 @@\n-a\n+A\n@@ -5 +5,2 @@\n e\n+f\n", "A\nb\nc\nd\ne\nf\n"),
        ("a\nb", "@@ -2 +2 @@\n-b\n\\ No newline at end of file\n+B\n\\ No newline at end of file\n", "a\nB"),
        ("a\r\nb\r\n", "@@ -1,2 +1,2 @@\n-a\n+A\r\n b\r\n", "A\r\nb\r\n"),
        ("x\ny\n", "@@ -1,2 +1,2 @@\n a\n-b\n+B\n", None),
        ("a\n", "@@ -7,1 +7,1 @@\n-a\n+b\n", None),
    ],
)
def test_hunks_are_applied_or_do_not_fit(before: str, diff: str, after: str | None) -> None:
    assert applied(before, hunks_of(diff)) == after


def test_a_file_that_is_not_as_it_was_is_shown_by_its_changed_passages() -> None:
    diff = "@@ -1,2 +1,2 @@\n a\n-b\n+B\n@@ -9 +9 @@\n-x\n+y\n"
    changes = [{"path": "/f", "kind": {"type": "update", "move_path": None}, "diff": diff}]
    assert [(each.old, each.new) for each in diffs_of(changes, lambda path: "other\n")] == [
        ("a\nb\n", "a\nB\n"),
        ("x\n", "y\n"),
    ]
    assert [(each.old, each.new) for each in diffs_of(changes)] == [("a\nb\n", "a\nB\n"), ("x\n", "y\n")]


def test_kinds_and_titles_of_changes() -> None:
    gone = {"path": "/a/gone.txt", "kind": {"type": "delete"}, "diff": "was\n"}
    moved = {"path": "/a/old.txt", "kind": {"type": "update", "move_path": "/a/new.txt"}, "diff": ""}
    assert (kind_of([gone]), title_of([gone])) == ("delete", "Delete gone.txt")
    assert (kind_of([moved]), title_of([moved])) == ("move", "Move old.txt")
    assert (kind_of([gone, moved]), title_of([gone, moved])) == ("edit", "Change gone.txt and 1 more")
    assert [(each.path, each.old, each.new) for each in diffs_of([gone])] == [("/a/gone.txt", "was\n", "")]
    assert title_of(None) == title_of(["nonsense"]) == "Change files"


@pytest.mark.parametrize(
    ("command", "inner"),
    [
        ("/bin/bash -lc 'ls -l'", "ls -l"),
        ("zsh -c \"echo 'a b'\"", "echo 'a b'"),
        ("ls -l", "ls -l"),
        ("bash script.sh x", "bash script.sh x"),
        ("bash -lc 'unfinished", "bash -lc 'unfinished"),
    ],
)
def test_the_shell_around_a_command_is_left_out(command: str, inner: str) -> None:
    assert unwrapped(command) == inner


SEARCH = {"type": "search", "query": "x", "path": "src"}


@pytest.mark.parametrize(
    ("item", "kind", "title"),
    [
        ({"type": "webSearch", "query": "q", "action": {"type": "openPage", "url": "https://a"}}, "fetch", "Open https://a"),
        ({"type": "webSearch", "query": "rust"}, "fetch", "Search the web: rust"),
        ({"type": "dynamicToolCall", "tool": "mine", "arguments": {"a": 1}}, "other", "mine"),
        ({"type": "collabAgentToolCall", "tool": "wait", "receiverThreadIds": []}, "think", "Wait for sub-agents"),
        ({"type": "commandExecution", "command": "rg x", "commandActions": [SEARCH]}, "search", "Search x in src"),
        ({"type": "commandExecution", "command": "a\nb", "commandActions": "nonsense"}, "execute", "a↵b"),
        ({"type": "of tomorrow", "x": 1}, "other", "of tomorrow"),
        ({"type": "fileChange", "changes": None}, "edit", "Change files"),
    ],
)  # fmt: skip
def test_titles_and_kinds_of_items(item: dict[str, Any], kind: str, title: str) -> None:
    shown = shown_item({"id": "i", **item})
    assert (shown.display.kind, shown.title) == (kind, title)


def test_a_message_without_deltas_and_one_that_goes_on_are_whole() -> None:
    events = CodexEvents()
    thought = {"type": "reasoning", "id": "r", "summary": ["hm"], "content": ["raw"]}
    chunks = [
        *events.feed("item/agentMessage/delta", {"itemId": "m1", "delta": "be"}),
        *events.feed("item/completed", {"item": {"type": "agentMessage", "id": "m1", "text": "begun"}}),
        *events.feed("item/completed", {"item": {"type": "agentMessage", "id": "m2", "text": " and whole"}}),
        *events.feed("item/completed", {"item": thought}),
    ]
    shown = story_of(chunks)
    assert (shown.text, shown.thoughts) == ("begun and whole", "hmraw")


def test_a_review_is_shown_once_whichever_comes_first() -> None:
    for order in ((0, 1), (1, 0)):
        items = [
            {"type": "exitedReviewMode", "id": "e", "review": "Fine."},
            {"type": "agentMessage", "id": "m", "text": "Fine."},
        ]
        events = CodexEvents()
        chunks = list(events.feed("item/started", {"item": {"type": "enteredReviewMode", "id": "s", "review": "x"}}))
        for index in order:
            chunks += events.feed("item/completed", {"item": items[index]})
        assert story_of(chunks).text == "Fine."  # fmt: skip


def test_a_long_output_is_shown_less_often_the_longer_it_is() -> None:
    events = CodexEvents()
    item = {"type": "commandExecution", "id": "c", "command": "x", "status": "inProgress"}
    chunks = list(events.feed("item/started", {"item": item}))
    for _ in range(2000):
        chunks += events.feed("item/commandExecution/outputDelta", {"itemId": "c", "delta": "0123456789" * 10})
    shown = [each.output["text"] for each in chunks if isinstance(each, c.ToolOutputAvailable)]
    assert sum(map(len, shown)) < 2_000_000
    assert len(shown) > 10
    [end] = events.feed("item/completed", {"item": {**item, "status": "completed", "exitCode": 0}})
    assert isinstance(end, c.ToolOutputAvailable)
    assert len(end.output["text"]) == 200_000


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ({"message": "plain words"}, "plain words"),
        ({"message": '{"error": {"message": "inner"}}', "additionalDetails": "more"}, "inner (more)"),
        ({"message": '{"detail": 1}'}, '{"detail": 1}'),
        (None, "no reason was given"),
    ],
)
def test_the_text_of_an_error(error: Any, text: str) -> None:
    assert error_text(error) == text


def test_options_for_the_network_and_of_an_unknown_kind() -> None:
    amendment = {"network_policy_amendment": {"host": "a.example", "action": "allow"}}
    denial = {"network_policy_amendment": {"host": "a.example", "action": "deny"}}
    decisions = [
        "accept",
        {"applyNetworkPolicyAmendment": amendment},
        {"applyNetworkPolicyAmendment": denial},
        {"new": 1},
    ]
    options = [offer.option for offer in command_offers({"availableDecisions": decisions})]  # fmt: skip
    assert [(each.label, each.kind) for each in options] == [
        ("Allow", "allow_once"),
        ("Always allow access to a.example", "allow_always"),
        ("Reject", "reject_once"),
        ("Always block access to a.example", "reject_always"),
    ]
    assert [offer.answer for offer in command_offers({})] == ["accept", "acceptForSession", "decline", "cancel"]


def test_prompts_and_servers_in_the_words_of_codex() -> None:
    assert request_of([v1.TextContent("/review the tests")], "t")[1]["target"]["instructions"] == "the tests"
    assert request_of([v1.TextContent("/compact")], "t") == ("thread/compact/start", {"threadId": "t"})
    assert request_of([v1.TextContent("/compacted")], "t")[0] == "turn/start"
    servers: list[v1.McpServer] = [
        v1.McpServerStdio("a b", "x", ["-y"], [v1.EnvVariable("K", "v")]),
        v1.McpServerHttp("a_b", "https://h", [v1.HttpHeader("N", "v")]),
        v1.McpServerSse("s", "https://s", []),
    ]
    assert mcp_config(servers) == {
        "a_b": {"command": "x", "args": ["-y"], "env": {"K": "v"}},
        "a_b_2": {"url": "https://h", "http_headers": {"N": "v"}},
    }


def test_the_processes_of_a_command_are_found_by_their_environment_and_asked_to_end() -> None:
    own = {"DRAGOMAN_CHILD": "of-this-test", "CODEX_THREAD_ID": "t1", "CODEX_TOOL_CALL_ID": "call_1"}
    script = "sleep 1000 & echo started; wait"
    child = subprocess.Popen(["/bin/sh", "-c", script], stdout=subprocess.PIPE, text=True, env={**os.environ, **own})
    assert child.stdout is not None

    def found() -> list[int]:
        return processes_of("of-this-test", ["t0", "t1"], {"call_0"})

    try:
        assert child.stdout.readline() == "started\n"
        assert len(found()) == 2
        assert processes_of("another", ["t1"], ()) == []
        assert processes_of("of-this-test", ["t2"], ()) == []
        assert processes_of("of-this-test", ["t1"], {"call_1"}) == []
        assert child.pid in ask_to_end(found())
        assert child.wait(60) == -signal.SIGTERM
        deadline = time.monotonic() + 60
        while found() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert found() == []
    finally:
        kill(found())
        child.wait(60)
        child.stdout.close()

"""Rows of a recording: pairs, latencies, sessions, runs of chunks, filters, figures, folded sessions."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.trace.entry import Header
from dragoman.trace.inspect.exchange import DecodedFrame
from dragoman.trace.inspect.figures import figures, percentile
from dragoman.trace.inspect.folding import FoldedSessions, describe
from dragoman.trace.inspect.timeline import Filter, RecordingTimeline, Row, joined_summary, read_timeline, runs
from tests.trace.talk import MODES, OPTIONS, SELECT, Talk, started, text


def rows(talk: Talk) -> list[Row]:
    return read_timeline(talk.entries).rows


def test_request_and_answer_know_each_other_and_the_time_between() -> None:
    talk = started()
    first, second = talk.prompt(), talk.ask("_x/y")
    talk.answer(second)
    talk.end(first)
    *_, prompt, other, other_answer, prompt_answer = rows(talk)
    assert (prompt.answer, prompt_answer.request) == (prompt_answer.number, prompt.number)
    assert (other.answer, other_answer.request) == (other_answer.number, other.number)
    assert prompt.latency == prompt_answer.latency == pytest.approx(0.3)
    assert prompt_answer.method == "session/prompt"


def test_ids_of_the_two_directions_do_not_mix() -> None:
    talk = started()
    talk.ask("_x/client", id=7)
    talk.ask("_x/agent", id=7, by="a2c")
    talk.reply(7)
    talk.answer(7)
    assert [row.method for row in rows(talk)[-2:]] == ["_x/agent", "_x/client"]


def test_answer_without_a_request_stands_alone() -> None:
    talk = started()
    talk.answer("ghost")
    row = rows(talk)[-1]
    assert (row.kind, row.method, row.request, row.latency) == ("response", "", None, None)


def test_sessions_get_short_names_in_order_of_appearance() -> None:
    talk = started("first")
    talk.open("second")
    timeline = read_timeline(talk.entries)
    assert timeline.aliases == {"first": "s1", "second": "s2"}
    request, answer = timeline.rows[-2:]
    assert request.session == answer.session == "second"


def test_every_kind_of_entry_is_a_row() -> None:
    talk = started()
    talk.stderr("warning")
    talk.frame("a2c", b"noise")
    talk.frame("a2c", b"")
    talk.close("a2c")
    talk.exit(3)
    kinds = [(row.kind, row.summary) for row in rows(talk)[-5:]]
    assert kinds == [
        ("stderr", "warning"),
        ("malformed", "noise"),
        ("blank", ""),
        ("end", "the agent closed its side"),
        ("exit", "the agent exited with code 3"),
    ]


def test_chunks_of_one_message_directly_after_each_other_are_one_run() -> None:
    talk = started()
    talk.prompt()
    for piece, message in (("a", "m"), ("b", "m"), ("c", "n")):
        talk.say(piece, messageId=message)
    talk.tool()
    talk.say("d", messageId="n")
    talk.update("agent_thought_chunk", content=text("e"), messageId="n")
    groups = list(runs(rows(talk)[5:]))
    assert [[row.summary for row in group] for group in groups] == [["a", "b"], ["c"], ["Do"], ["d"], ["e"]]
    assert joined_summary(groups[0]) == "ab"


def test_chunks_of_two_sessions_are_two_runs() -> None:
    talk = started("a")
    talk.open("b")
    for session in ("a", "b", "a"):
        talk.say(session=session)
    assert [len(group) for group in runs(rows(talk)[-3:])] == [1, 1, 1]


def test_run_with_a_gap_made_by_a_filter_is_shown_in_parts() -> None:
    talk = started()
    for _ in range(3):
        talk.say()
    first, _, last = rows(talk)[-3:]
    assert [len(group) for group in runs([first, last])] == [1, 1]


def test_tool_call_update_is_summarized_with_the_title_of_its_call() -> None:
    talk = started()
    talk.tool("t")
    talk.update("tool_call_update", toolCallId="t", status="completed")
    assert rows(talk)[-1].summary == "Do · completed"


def test_finding_that_shows_later_is_added_to_its_row() -> None:
    talk = Talk()
    talk.hello()
    asked = talk.ask("session/new", {"cwd": "/p", "mcpServers": []})
    talk.say(session="s")
    talk.answer(asked, {"sessionId": "s"})
    timeline = read_timeline(talk.entries)
    assert [(row.number, [each.rule for each in row.findings]) for row in timeline.rows if row.findings] == [(4, [102])]
    assert [finding.rule for finding in timeline.findings] == [102]


def test_timeline_that_keeps_no_rows_still_pairs_and_judges() -> None:
    talk = started()
    talk.end(talk.prompt(), "no-such-reason")
    timeline = RecordingTimeline(is_whole=True, keeps_rows=False)
    last = [timeline.feed(entry) for entry in talk.entries][-1]
    assert last is not None
    assert (timeline.rows, [each.rule for each in last.findings]) == ([], [181])
    assert last.latency == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"session": "s"}, {"session/new", "session/prompt", "agent_message_chunk"}),
        ({"method": "session/*"}, {"session/new", "session/prompt", "agent_message_chunk"}),
        ({"method": "agent_*"}, {"agent_message_chunk"}),
        ({"method": "initialize"}, {"initialize"}),
        ({"dir": "a2c", "method": "session/prompt"}, {"session/prompt"}),
        ({"errors": True}, {"_x/y"}),
        ({"since": 0.55, "until": 0.65}, {"agent_message_chunk"}),
    ],
)
def test_filter_keeps_what_is_asked_for(wanted: dict[str, Any], expected: set[str]) -> None:
    talk = started()
    prompt = talk.prompt()
    talk.say()
    talk.end(prompt)
    talk.fail(talk.ask("_x/y"), -32601)
    kept = [row for row in rows(talk) if Filter(**wanted).wants(row)]
    assert {row.name for row in kept} == expected


@pytest.mark.parametrize("sought", ["HELLO wor", "größe", "two\nlines", "MESSAGEID"])
def test_text_is_found_across_chunks_and_behind_escapes(sought: str) -> None:
    talk = started()
    content = b'"content":{"type":"text","text":"Gr\\u00f6\\u00dfe two\\nlines Hello "}'
    update = b'{"sessionUpdate":"agent_message_chunk","messageId":"m",%b}' % content
    talk.frame("a2c", b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":%b}}' % update)
    talk.say("world", messageId="m")
    [group] = runs(rows(talk)[-2:])
    assert Filter(grep=sought).finds(group, talk.entries)
    assert not Filter(grep="absent").finds(group, talk.entries)


def test_figures_count_both_ways_and_rank_latencies() -> None:
    talk = started()
    for wait in (0.0, 1.0, 2.0):
        prompt = talk.prompt()
        talk.wait(wait)
        talk.end(prompt)
    talk.prompt()
    counted = figures(rows(talk))["methods"]["session/prompt"]
    assert (counted["messages"], counted["unanswered"]) == ({"c2a": 4, "a2c": 3}, 1)
    assert counted["latency"] == {"p50": 1.1, "p90": 2.1, "p99": 2.1, "max": 2.1}


def test_percentile_is_a_value_that_was_there() -> None:
    values = [float(value) for value in range(1, 101)]
    assert [percentile(values, percent) for percent in (50, 90, 99)] == [50, 90, 99]
    assert percentile([5.0], 50) == 5.0


def test_redaction_is_known_from_the_header() -> None:
    talk = started()
    talk.answer(talk.ask("session/new", {"cwd": "xxxx", "mcpServers": []}), {"sessionId": "two"})
    assert read_timeline(talk.entries, header=Header(started="x", redacted=True)).findings == []
    assert [finding.rule for finding in read_timeline(talk.entries).findings] == [87]


def folded(talk: Talk, until: int | None = None) -> dict[str, dict[str, Any]]:
    sessions = FoldedSessions()
    read_timeline(talk.entries[:until], watch=sessions.feed)
    return {name: describe(state) for name, state in sessions.states.items()}


def test_session_is_folded_from_both_directions() -> None:
    talk = started(modes=MODES, configOptions=[SELECT])
    prompt = talk.prompt("s", text("do it"))
    talk.say("I ")
    talk.say("will")
    at = len(talk.entries)
    talk.tool("t")
    talk.reply(talk.permission("t2"), {"outcome": {"outcome": "selected", "optionId": OPTIONS[0]["optionId"]}})
    talk.update("tool_call_update", toolCallId="t", status="completed")
    talk.end(prompt, "cancelled")
    talk.answer(talk.ask("session/set_mode", {"sessionId": "s", "modeId": "code"}))
    before, after = folded(talk, at)["s"], folded(talk)["s"]
    assert [(item["item"], item["text"]) for item in before["timeline"]] == [("user", "do it"), ("agent", "I will")]
    assert (before["running"], before["mode"], before["options"]) == (True, "ask", {"model": "small"})
    assert [item["status"] for item in after["timeline"][2:]] == ["completed", "cancelled"]
    assert (after["running"], after["mode"], after["stop_reason"]) == (False, "code", "cancelled")


def test_loading_a_session_resets_its_state() -> None:
    talk = started("s")
    talk.turn()
    asked = talk.ask("session/load", {"sessionId": "s", "cwd": "/p", "mcpServers": []})
    talk.update("user_message_chunk", content=text("hi"))
    talk.answer(asked)
    assert [item["item"] for item in folded(talk)["s"]["timeline"]] == ["user"]


def test_feed_returns_the_changed_position_of_the_timeline() -> None:
    talk = started()
    talk.prompt("s", text("hi"))
    talk.update("user_message_chunk", content=text("hi"))  # the prompt sent back
    talk.say("a", messageId="m")
    talk.tool("t")
    talk.say("b", messageId="m")
    talk.update("tool_call_update", toolCallId="t", status="failed")
    talk.update("usage_update", used=1, size=2)
    sessions, places = FoldedSessions(), []

    def watch(frame: DecodedFrame) -> None:
        places.append(sessions.feed(frame))

    read_timeline(talk.entries, watch=watch)
    assert places[3:] == [("s", -1), *(("s", place) for place in (0, -1, 1, 2, 1, 2, -1))]

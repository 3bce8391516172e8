"""`_dragoman/search`: words of a conversation, wherever the agent cut them, in the user's own sessions only."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.host.clients import older_history
from dragoman.host.host import Visitor
from dragoman.host.methods import search
from tests.host.kit import OURS, Client, Hosted, OnTheWire, hosted

END = {"stopReason": "end_turn"}


async def conversation(host: Hosted, source: OnTheWire, line: Client, prompt: str, *pieces: str) -> str:
    """A session with one turn: a prompt, a thought, a call and an answer in pieces."""
    session = await line.open("/tmp")
    agent = source.agent
    id = line.prompt(session, prompt)
    prompted = await agent.prompted()
    agent.update("session_info_update", title=f"About {prompt}")
    agent.update("agent_thought_chunk", content={"type": "text", "text": "thinking of Zebra crossings"})
    diff = {"type": "diff", "path": "/srv/app.py", "oldText": "x", "newText": "import asyncio"}
    agent.update("tool_call", toolCallId="t", title="Edit app.py", content=[diff], rawInput={"why": "a giraffe"})
    for piece in pieces:
        agent.say(piece)
    agent.reply(prompted, END)
    await line.answer_to(id)
    return session


async def everything(line: Client, text: str, **params: Any) -> list[dict[str, Any]]:
    """All hits, over as many answers as there are."""
    found: list[dict[str, Any]] = []
    while True:
        answer = await line.result("_dragoman/search", text=text, **params)
        found += answer["hits"]
        if "before" not in answer:
            return found
        params["before"] = answer["before"]
        assert len(found) < 1000


async def test_words_are_found_in_what_a_user_sees_with_their_place() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line = await host.client(OURS)
        session = await conversation(host, source, line, "paint the Elephant", "the ele", "phant", " is ", "grey")
        hits = await everything(line, "elephant", sessionId=session)
        assert [(hit["kind"], hit["around"]) for hit in hits] == [
            ("agent", "the elephant is grey"),
            ("user", "paint the Elephant"),
        ]
        for hit in hits:
            page = await line.result("_dragoman/history", sessionId=session, before=hit["seq"] + 1)
            assert page["updates"][-1]["seq"] == hit["seq"]
            assert page["updates"][-1]["at"] == hit["at"]
        for text, kind in (("ZEBRA", "thought"), ("asyncio", "tool"), ("giraffe", "tool"), ("app.py", "tool")):
            [hit] = await everything(line, text, sessionId=session)
            assert (hit["kind"], hit["sessionId"]) == (kind, session)
        assert await everything(line, "rhinoceros", sessionId=session) == []
        assert [hit["kind"] for hit in await everything(line, "elephant")] == ["title", "agent", "user"]
        assert await everything(line, "tool_call", sessionId=session) == [], "names of the protocol are not content"


@pytest.mark.parametrize("limit", [1, 3, 50])
async def test_answers_are_bounded_and_go_on_where_the_last_one_ended(
    monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(older_history, "PAGE_EVENTS", 20)
    monkeypatch.setattr(older_history, "_STEP", 10)
    monkeypatch.setattr(search, "_READ_EVENTS", 30)
    monkeypatch.setattr(search, "_RECORDS", 2)
    source = OnTheWire()
    async with hosted(source) as host:
        line = await host.client(OURS)
        # One message of which each part of the history ends in the middle of a word.
        pieces = [letter for number in range(12) for letter in f" needle{number:02}"]
        sessions = [await conversation(host, source, line, f"needle {count}", *pieces) for count in range(3)]
        hits = await everything(line, "needle", limit=limit)
        for session in sessions:
            kinds = [hit["kind"] for hit in hits if hit["sessionId"] == session]
            assert (kinds[0], kinds[-1]) == ("title", "user")
            assert set(kinds[1:-1]) == {"agent"}
        places = [(hit["sessionId"], hit["seq"], hit["kind"]) for hit in hits]
        assert len(set(places)) == len(places)
        assert [hit["sessionId"] for hit in hits if hit["kind"] == "title"] == sessions[::-1], "the last one first"
        for word in ("needle00", "needle05", "needle11"):
            assert await everything(line, word, sessionId=sessions[0], limit=limit), word


async def test_a_user_finds_nothing_in_the_sessions_of_another() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line = await host.client(OURS)
        session = await conversation(host, source, line, "secret", "secret")
        other = await host.client(OURS, visitor=Visitor(principal="other"))
        assert await everything(other, "secret") == []
        _, answer = await other.answer_to(other.ask("_dragoman/search", text="secret", sessionId=session))
        assert answer["error"]["code"] == -32002
        _, missing = await other.answer_to(other.ask("_dragoman/search", text="secret", sessionId="missing"))
        assert missing["error"] == answer["error"]


@pytest.mark.parametrize(
    "wrong",
    [
        *({}, {"text": ""}, {"text": "  "}, {"text": 3}, {"text": "x" * 201}, {"text": "x", "limit": 0}),
        *({"text": "x", "limit": 10_000}, {"text": "x", "before": "~"}, {"text": "x", "before": {}}),
    ],
)
async def test_a_search_for_nothing_is_refused(wrong: dict[str, Any]) -> None:
    async with hosted(OnTheWire()) as host:
        line = await host.client(OURS)
        _, answer = await line.answer_to(line.ask("_dragoman/search", **wrong))
        assert answer["error"]["code"] == -32602

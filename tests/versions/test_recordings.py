"""Recordings of real agents through the translators: nothing that a user sees is lost, and every frame is valid."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from dragoman.versions import Lost
from dragoman.versions.dialect.agent import CANCEL_LOOK_SECONDS, V1ClientDialectAgent
from dragoman.versions.dialect.client import DialectClientV1Agent
from dragoman.versions.frames import Frame, Side
from dragoman.versions.losses import DIALECT_TO_V1, V1_TO_DIALECT, V1_TO_V2, V2_TO_V1
from dragoman.versions.pairs import Chain
from dragoman.versions.router import OWN_ID
from dragoman.versions.version2.v1_client import V1ClientV2Agent
from dragoman.versions.version2.v2_client import V2ClientV1Agent
from tests.versions.oracle import Watched
from tests.versions.recordings import SHARED, Played, facts, recorded

OWN = Path(__file__).parents[1] / "golden" / "data" / "sample.jsonl"
V1_RECORDINGS = [OWN, *sorted((SHARED / "transcripts").glob("*.jsonl"))]
V2_RECORDINGS = [OWN.parent / "v2" / "sample.jsonl", *sorted((SHARED / "v2-traffic").glob("v2-*.jsonl"))]
V2_RECORDINGS += sorted((SHARED / "v2-traffic").glob("real-*.jsonl"))

needs_shared = pytest.mark.skipif(not (SHARED / "transcripts").is_dir(), reason="no recordings of real agents here")


def _names(paths: list[Path]) -> list[Any]:
    return [pytest.param(path, id=path.stem) for path in paths]


def comparable_prompts(messages: Iterable[tuple[Side, Frame]]) -> set[str]:
    """Prompts that have content and go to a session that was opened; the recorder sends others on purpose."""
    opened: set[str] = set()
    prompts: set[str] = set()
    for side, message in messages:
        params = message.get("params") or {}
        if side == "agent" and "method" not in message:
            opened.add((message.get("result") or {}).get("sessionId", ""))
        elif message.get("method") in ("session/load", "session/resume"):
            opened.add(params["sessionId"])
        elif message.get("method") == "session/prompt" and params.get("prompt") and params["sessionId"] in opened:
            prompts.add(json.dumps(message["id"]))
    return prompts


@pytest.mark.parametrize("path", _names(V1_RECORDINGS))
def test_version_1_through_version_2_and_back_keeps_what_a_user_sees(path: Path) -> None:
    messages = list(recorded(path))
    prompts = comparable_prompts(messages)
    outer, inner = Watched(V1ClientV2Agent(), 1, 2), Watched(V2ClientV1Agent(), None, 1)
    played = Played(Chain(outer, inner), messages)
    before = facts((message for side, message in messages if side == "agent"), prompts)
    assert facts(played.received["client"], prompts) == before
    assert outer.faults + inner.faults == []


@needs_shared
def test_the_recordings_of_version_1_are_many() -> None:
    prompts = sum(len(comparable_prompts(list(recorded(path)))) for path in V1_RECORDINGS)
    assert prompts > 300


@pytest.mark.parametrize("path", _names(V2_RECORDINGS))
def test_version_2_is_valid_as_version_1_and_ends_every_prompt(path: Path) -> None:
    """The recorded client speaks version 2; what it asks of a version 1 client is asked through the inverse first."""
    messages = list(recorded(path))
    watched = Watched(V1ClientV2Agent(), 1, 2)
    played = Played(watched, _as_v1_client(messages))
    assert watched.faults == []
    asked = {
        json.dumps(m["id"]) for s, m in _as_v1_client(messages) if s == "client" and m.get("method") == "session/prompt"
    }
    answered = {json.dumps(frame["id"]) for frame in played.received["client"] if "method" not in frame}
    assert asked <= answered
    assert {lost.kind for lost in watched.losses} <= V2_TO_V1.keys() | V1_TO_V2.keys()


def _as_v1_client(messages: list[tuple[Side, Frame]]) -> list[tuple[Side, Frame]]:
    """The requests of a client of version 2 as one of version 1 writes them."""
    made: list[tuple[Side, Frame]] = []
    for side, message in messages:
        if side == "client" and message.get("method") == "initialize":
            params = {"protocolVersion": 1, "clientInfo": {"name": "test", "version": "1"}}
            message = {**message, "params": params}
        elif side == "client" and message.get("method") in ("auth/login", "auth/logout"):
            names = {"auth/login": "authenticate", "auth/logout": "logout"}
            message = {**message, "method": names[message["method"]]}
        elif side == "client" and message.get("method") in ("session/new", "session/resume", "session/fork"):
            params = {**message["params"], "mcpServers": []}
            is_replay = params.pop("replayFrom", None) is not None
            message = {**message, "method": "session/load" if is_replay else message["method"], "params": params}
        elif side == "client" and message.get("method") == "session/set_config_option":
            params = {name: value for name, value in message["params"].items() if value != "id"}
            message = {**message, "params": params}
        made.append((side, message))
    return made


class _SameSessions:
    """The chain 1 - 2025.1 - 1, with the session ids that the recording has; `set_mode` of its own is answered."""

    def __init__(self) -> None:
        self._near = V1ClientDialectAgent("/home/user/project")
        self._far = DialectClientV1Agent()
        self._chain = Chain(self._near, self._far)
        self.losses: tuple[Lost, ...] = ()
        self.wait_seconds: float | None = None

    def feed(self, side: Side, frame: Frame) -> list[tuple[Side, Frame]]:
        if side == "client":
            frame = self._renamed(frame, {v1_id: own for own, v1_id in self._far.session_ids.items()})
        sent = self._chain.feed(side, frame)
        if self._near.wait_seconds != CANCEL_LOOK_SECONDS:  # the recorded agents end what is cancelled
            sent += self._chain.elapsed()
        for to, each in list(sent):
            if to == "agent" and str(each.get("id")).startswith(OWN_ID) and each.get("method") == "session/set_mode":
                sent += self._chain.feed("agent", {"jsonrpc": "2.0", "id": each["id"], "result": {}})
        return [(to, self._renamed(each, self._far.session_ids) if to == "client" else each) for to, each in sent]

    def elapsed(self) -> list[tuple[Side, Frame]]:
        return []

    def closed(self, side: Side) -> list[tuple[Side, Frame]]:
        return self._chain.closed(side)

    @property
    def kinds(self) -> set[str]:
        return {lost.kind for lost in self._chain.losses}

    @staticmethod
    def _renamed(frame: Frame, names: dict[str, str]) -> Frame:
        for part in ("params", "result"):
            value = frame.get(part)
            if isinstance(value, dict) and value.get("sessionId") in names:
                frame = {**frame, part: {**value, "sessionId": names[value["sessionId"]]}}
        return frame


@needs_shared
@pytest.mark.parametrize("path", _names([path for path in V1_RECORDINGS if path != OWN]))
def test_version_1_through_the_dialect_and_back_keeps_texts_tools_and_stop_reasons(path: Path) -> None:
    messages = [(side, message) for side, message in recorded(path)]
    prompts = comparable_prompts(messages)
    chain = _SameSessions()
    played = Played(chain, messages)
    sessions = _opened(messages)
    before = _of(facts((message for side, message in messages if side == "agent"), prompts), sessions)
    after = _of(facts(played.received["client"], prompts), sessions)
    assert after["plans"] == before["plans"]
    assert after["tools"] == before["tools"]
    assert after["texts"] == before["texts"] or "content-as-text" in chain.kinds
    assert len(after["stops"]) == len(before["stops"])
    differing = [pair for pair in zip(before["stops"], after["stops"], strict=True) if pair[0] != pair[1]]
    # A second prompt at once is refused; a result after a cancel is read as cancelled.
    assert all(stop in ("cancelled", ("error", -32600)) for _, stop in differing)
    assert chain.kinds <= V1_TO_DIALECT.keys() | DIALECT_TO_V1.keys()


def _opened(messages: list[tuple[Side, Frame]]) -> set[str]:
    loaded = {m["params"]["sessionId"] for _, m in messages if m.get("method") == "session/load"}
    made = {(m.get("result") or {}).get("sessionId") for s, m in messages if s == "agent" and "method" not in m}
    return {each for each in (loaded | made) if each}


def _of(found: dict[str, Any], sessions: set[str]) -> dict[str, Any]:
    """The facts of opened sessions; of tool calls the status, with pending as the dialect says it."""
    tools = {
        name: {"in_progress" if tool.get("status") == "pending" else tool.get("status", "in_progress")}
        for name, tool in found["tools"].items()
        if name.split()[0] in sessions
    }
    texts = {name: text for name, text in found["texts"].items() if name.split()[0] in sessions}
    return {**found, "tools": tools, "texts": texts}

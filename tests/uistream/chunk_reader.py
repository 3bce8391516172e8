"""A reader of UI-message streams that accepts only what the AI SDK's own readers accept."""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.uistream import chunks as c

# Chunks by the version of the AI SDK that knows them first; those of version 7 are never served.
SINCE_6 = {"tool-approval-request", "tool-output-denied"}
SINCE_7 = {
    "reset-step",
    "tool-approval-response",
    "reasoning-file",
    "custom",
    "steering-message",
}
FINISH_REASONS = {"stop", "length", "content-filter", "tool-calls", "error", "other"}


class StrictReader:
    """Reads the streams of one message; fails at the first chunk that a client would not take."""

    def __init__(self, version: int = 6) -> None:
        self.version = version
        self.message_id: str | None = None
        self.open: set[str] = set()
        self.used: set[str] = set()
        self.texts: dict[str, list[str]] = {"text": [], "reasoning": []}
        self.tools: dict[str, dict[str, Any]] = {}
        self.step = 0
        self.steps_open = 0
        self.asked: dict[str, str] = {}
        self.finished: str | None = None
        self.error: str | None = None
        self.data: list[tuple[str, Any]] = []
        self.files: list[str] = []

    def stream(self, chunks: list[c.Chunk]) -> None:
        """Read one whole stream."""
        self.finished = None
        assert isinstance(chunks[0], c.Start)
        for chunk in chunks:
            assert not self.is_over(), f"{chunk} after the end"
            self.feed(msgspec.json.decode(c.encode_chunk(chunk)))
        assert self.is_over()
        assert not self.open, "a text was not closed"
        assert not self.steps_open, "a step was not closed"

    def is_over(self) -> bool:
        return self.finished is not None

    def feed(self, chunk: dict[str, Any]) -> None:
        kind: str = chunk["type"]
        assert kind not in SINCE_7
        assert self.version > 5 or kind not in SINCE_6
        if kind == "start":
            assert self.message_id in (None, chunk["messageId"])
            self.message_id = chunk["messageId"]
        elif kind == "start-step":
            self.step += 1
            self.steps_open += 1
            assert self.steps_open == 1
        elif kind == "finish-step":
            self.steps_open -= 1
            assert self.steps_open == 0
            assert not self.open
        elif kind == "finish":
            assert (chunk.get("finishReason") in FINISH_REASONS) == (self.version > 5)
            self.finished = chunk.get("finishReason", "stop")
        elif kind == "abort":
            self.finished = "abort"
        elif kind == "error":
            self.error = chunk["errorText"]
        elif kind.startswith(("text-", "reasoning-")):
            self.passage(kind, chunk)
        elif kind.startswith("tool-"):
            self.tool(kind, chunk)
        elif kind.startswith("data-"):
            self.data.append((kind, chunk["data"]))
        else:
            assert kind in ("file", "source-url")
            assert self.steps_open
            self.files.append(chunk["url"])

    def passage(self, kind: str, chunk: dict[str, Any]) -> None:
        name, what = kind.split("-")
        if what == "start":
            assert chunk["id"] not in self.used
            assert self.steps_open
            self.used.add(chunk["id"])
            self.open.add(chunk["id"])
            self.texts[name].append("")
        elif what == "delta":
            assert chunk["id"] in self.open
            self.texts[name][-1] += chunk["delta"]
        else:
            self.open.remove(chunk["id"])

    def tool(self, kind: str, chunk: dict[str, Any]) -> None:
        id = chunk["toolCallId"]
        if kind in ("tool-input-start", "tool-input-available"):
            assert chunk["dynamic"] is True
            assert chunk["providerExecuted"] is True
            assert ("title" in chunk) <= (self.version > 5)
            known = self.tools.get(id)
            assert known is None or known["step"] == self.step, "this would make a second part of the call"
            assert known is None or known["state"] in ("start", "input")
            assert self.steps_open or known is not None
            self.tools[id] = {"step": self.step, "state": "start" if kind == "tool-input-start" else "input", **chunk}
            return
        tool = self.tools[id]  # output without input ends the client's stream
        if kind == "tool-approval-request":
            tool["state"] = "asked"
            self.asked[chunk["approvalId"]] = id
        elif kind == "tool-output-denied":
            tool["state"] = "denied"
        elif kind == "tool-output-error":
            tool.update(state="error", error=chunk["errorText"])
        else:
            tool.update(state="preliminary" if chunk.get("preliminary") else "output", output=chunk["output"])

    def answers_by_itself(self) -> bool:
        """Whether a client posts again as soon as its user has answered every question it shows."""
        last = [tool for tool in self.tools.values() if tool["step"] == self.step]
        return any(tool["state"] == "asked" for tool in last) and all(
            tool["state"] in ("asked", "answered", "output", "error", "denied") for tool in last
        )

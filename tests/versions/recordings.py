"""Recordings fed through a translator, with the recorded agent behind it and the recorded client in front of it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import Any

from dragoman.versions.frames import OTHER, Frame, Side
from dragoman.versions.router import Translator

SHARED = Path(__file__).parents[2].parent / "shared"


def recorded(path: Path) -> Iterator[tuple[Side, Frame]]:
    """The messages of a recording with the side that sent each."""
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if isinstance(record.get("msg"), dict):
            yield ("client" if record["dir"] == "c2a" else "agent"), record["msg"]


class Played:
    """What both sides received while a recording was fed through a translator.

    Responses of the recording answer what the translator asked: a request that kept its id, or the prompt with the
    same content. A response to a request that the translator never sent is left out.
    """

    def __init__(self, translator: Translator, messages: Iterable[tuple[Side, Frame]]) -> None:
        self.translator = translator
        self.received: dict[Side, list[Frame]] = {"client": [], "agent": []}
        self._recorded: dict[Side, dict[str, Frame]] = {"client": {}, "agent": {}}
        self._arrived: dict[Side, list[Frame]] = {"client": [], "agent": []}
        self._waiting: list[tuple[Side, Frame]] = []
        for side, message in messages:
            if "method" in message:
                if "id" in message:
                    self._recorded[side][json.dumps(message["id"])] = message
                self._take(translator.feed(side, message))
            elif not self._answer(side, message):
                self._waiting.append((side, message))

    def _answer(self, side: Side, message: Frame) -> bool:
        asked = self._recorded[OTHER[side]].get(json.dumps(message.get("id")))
        request = None if asked is None else next((each for each in self._arrived[side] if _same(each, asked)), None)
        if request is None:
            return False
        self._arrived[side].remove(request)
        self._take(self.translator.feed(side, {**message, "id": request["id"]}))
        return True

    def _take(self, sent: list[tuple[Side, Frame]]) -> None:
        for side, frame in sent:
            self.received[side].append(frame)
            if "method" in frame and "id" in frame:
                self._arrived[side].append(frame)
        waiting, self._waiting = self._waiting, []
        for side, message in waiting:
            if not self._answer(side, message):
                self._waiting.append((side, message))


def _same(request: Frame, asked: Frame) -> bool:
    if asked["method"] == "session/prompt":
        return request["method"] == "session/prompt" and _texts(request) == _texts(asked)
    return bool(request["id"] == asked["id"])


def _texts(prompt: Frame) -> list[Any]:
    blocks = (prompt.get("params") or {}).get("prompt") or []
    return [block.get("text") for block in blocks if block.get("type") == "text"]


def facts(frames: Iterable[Frame], prompts: Container[str]) -> dict[str, Any]:
    """What a client of version 1 learns of a conversation: texts, tool calls, plans and stop reasons.

    Args:
        frames: What the client received.
        prompts: The ids of the prompts to look at, as JSON.
    """
    texts: dict[str, str] = defaultdict(str)
    tools: dict[str, Frame] = {}
    plans: list[Any] = []
    stops: list[Any] = []
    for frame in frames:
        if frame.get("method") == "session/update":
            session, update = frame["params"]["sessionId"], frame["params"]["update"]
            kind = update["sessionUpdate"]
            if kind in ("agent_message_chunk", "agent_thought_chunk") and update["content"].get("type") == "text":
                texts[f"{session} {kind}"] += update["content"]["text"]
            elif kind in ("tool_call", "tool_call_update"):
                tool = tools.setdefault(f"{session} {update['toolCallId']}", {})
                tool.update({name: update[name] for name in ("title", "kind", "status") if update.get(name)})
            elif kind == "plan":
                plans.append([(entry["content"], entry["status"]) for entry in update["entries"]])
        elif "method" not in frame and json.dumps(frame.get("id")) in prompts:
            result = frame.get("result") or {}
            stops.append(result.get("stopReason") or ("error", frame.get("error", {}).get("code")))
    return {"texts": dict(texts), "tools": tools, "plans": plans, "stops": stops}

"""A translator with shorthand for what the two sides send, and what they receive."""

from __future__ import annotations

from typing import Any

from dragoman.versions.frames import Frame, Side
from dragoman.versions.router import Translator


class Conversation:
    """Feeds a translator; `client` and `agent` hold what each side received since it was last taken."""

    def __init__(self, translator: Translator) -> None:
        self.translator = translator
        self.client: list[Frame] = []
        self.agent: list[Frame] = []

    def feed(self, side: Side, frame: Frame) -> None:
        self._take(self.translator.feed(side, {"jsonrpc": "2.0", **frame}))

    def close(self, side: Side) -> None:
        self._take(self.translator.closed(side))

    def wait(self) -> None:
        self._take(self.translator.elapsed())

    def _take(self, sent: list[tuple[Side, Frame]]) -> None:
        for to, each in sent:
            (self.client if to == "client" else self.agent).append(each)

    def ask(self, side: Side, request_id: Any, method: str, **params: Any) -> None:
        self.feed(side, {"id": request_id, "method": method, "params": params})

    def notify(self, side: Side, method: str, **params: Any) -> None:
        self.feed(side, {"method": method, "params": params})

    def answer(self, side: Side, request_id: Any, result: Any) -> None:
        self.feed(side, {"id": request_id, "result": result})

    def fail(self, side: Side, request_id: Any, code: int) -> None:
        self.feed(side, {"id": request_id, "error": {"code": code, "message": "no"}})

    def update(self, kind: str, /, **members: Any) -> None:
        """An update of the agent in session `s`."""
        self.notify("agent", "session/update", sessionId="s", update={"sessionUpdate": kind, **members})

    def take(self, side: Side) -> list[Frame]:
        taken = self.client if side == "client" else self.agent
        frames = list(taken)
        taken.clear()
        return frames

    def updates(self) -> list[Frame]:
        """The updates that the client received, in order; they are taken, and so is everything else."""
        return [each["params"]["update"] for each in self.take("client") if each.get("method") == "session/update"]

    def lost(self) -> set[str]:
        return {lost.kind for lost in self.translator.losses}


def text(value: str) -> Frame:
    return {"type": "text", "text": value}

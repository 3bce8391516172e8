"""The answer of a turn as text, folded from updates as they come. The same text as `result.final_text` gives.

Owns nothing but the pieces of the answer. Lines about tool calls go to stderr, where there is no terminal.
"""

import os
import sys

TYPE_CHECKING = False  # see dragoman/__init__.py
if TYPE_CHECKING:
    from typing import Any

    from dragoman.cli.exec.heartbeat import Heartbeat


class TextView:
    """The view that collects the answer, and shows in lines what the agent does."""

    def __init__(self, *, is_quiet: bool) -> None:
        self._is_quiet = is_quiet
        self._items: list[list[Any]] = []  # ["message", id, text] or ["tool"]
        self._tools: list[dict[str, Any]] = []
        self._named: set[str] = set()
        self._has_more = False
        self._notes = self._notes_before = 0  # how many lines were shown, in all and until the last tick

    # As `TurnView` has them

    def opened(self, session: "dict[str, Any]", *, has_events: bool) -> None:
        if session.get("isScripted"):
            # Not by `note`: it would load what makes a text safe to show, and this one is.
            sys.stderr.write("dragoman: the agent is scripted: it plays a script and calls no model\n")

    def event(self, event: "dict[str, Any]") -> None:
        pass

    def update(self, update: "dict[str, Any]") -> None:
        match update.get("sessionUpdate"):
            case "agent_message_chunk":
                content = update.get("content")
                if isinstance(content, dict) and content.get("type") == "text":
                    self._piece(update.get("messageId"), str(content.get("text", "")))
                else:
                    self._has_more = True
            case "tool_call" | "tool_call_update":
                self._tool(update)
            case "usage_update":
                self._has_more = self._has_more or bool(update.get("used") or update.get("cost"))
            case "plan" | "plan_update" | "session_info_update":
                self._has_more = True
            case "agent_thought_chunk" if self._items and self._items[-1][0] == "message":
                self._items.append(["thought"])

    def note(self, text: str) -> None:
        from dragoman.cli.console import write_note

        self._notes += 1
        write_note(text)

    def violated(self, text: str) -> None:
        self.note(text)

    @property
    def stop_cause(self) -> str:
        return ""

    @property
    def tick_seconds(self) -> float:
        return self._beat().seconds if "DRAGOMAN_HEARTBEAT" in os.environ else 30.0

    def tick(self, seconds: float) -> None:
        if not self._is_quiet and self._notes == self._notes_before:
            from dragoman.cli.exec.hosted.ending import doing_in

            self.note(self._beat().still(None, doing_in(self._tools), seconds))
        self._notes_before = self._notes

    def _beat(self) -> "Heartbeat":
        from dragoman.cli.exec.heartbeat import Heartbeat

        return Heartbeat()

    def tool_updates(self) -> "list[dict[str, Any]]":
        return self._tools

    # The answer

    @property
    def is_empty(self) -> bool:
        """Whether the agent did nothing at all that could be seen."""
        return not self._has_more and not self._tools and not any(item[2].strip() for item in self._messages())

    def text(self) -> str:
        """Return what the agent wrote after its last tool call, or before it if nothing came after."""
        answer: list[list[Any]] = []
        is_closed = False
        for item in self._items:
            if item[0] == "tool":
                is_closed = True
            elif item[0] == "message" and item[2].strip():
                if is_closed:
                    answer, is_closed = [], False
                answer.append(item)
        text = ""
        for _, message_id, piece in answer:
            text += f"{chr(10) * 2 if text and message_id else ''}{piece}"
        return text

    def write(self) -> None:
        """Write the answer to stdout."""
        text = self.text()
        if not text:
            return
        if sys.stdout.isatty():
            from dragoman.text.terminal import plain

            text = plain(text)
        from dragoman.text.secrets import known_keys

        text = known_keys.mask(text if text.endswith("\n") else text + "\n")
        sys.stdout.buffer.write(text.encode(errors="replace"))
        sys.stdout.buffer.flush()

    def _messages(self) -> "list[list[Any]]":
        return [item for item in self._items if item[0] == "message"]

    def _piece(self, message_id: "Any", text: str) -> None:
        if message_id is not None:
            for item in reversed(self._items):
                if item[0] == "message" and item[1] == message_id:
                    item[2] += text
                    return
        elif self._items and self._items[-1][0] == "message" and self._items[-1][1] is None:
            self._items[-1][2] += text
            return
        self._items.append(["message", message_id, text])

    def _tool(self, update: "dict[str, Any]") -> None:
        id = str(update.get("toolCallId"))
        if id not in self._named:
            self._named.add(id)
            self._items.append(["tool"])
            if not self._is_quiet and update.get("title"):
                self.note(f"{update.get('kind') or 'other'}: {update['title']}")
        self._tools.append(update)

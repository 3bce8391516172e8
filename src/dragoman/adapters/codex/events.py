"""What Codex reports about a turn, as UI-message chunks.

Owns the mapping of its notifications, live and recorded, and of the items of a finished turn. `items.py` has the items
that are calls. What is not known is left out, but for items: those are shown. Pure, but for the file that a change is
about to be made to.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.adapters.codex import diffs
from dragoman.adapters.codex.items import NOT_CALLS, TEXTS, announced, outcome, shown_item
from dragoman.adapters.codex.notes import ThreadNotes
from dragoman.text.terminal import plain
from dragoman.uistream import chunks as c

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dragoman.adapters.codex.items import ShownItem

_log = logging.getLogger("dragoman.adapters")

_SHOWN_LETTERS: Final = 16 << 10  # of the output of a running command: the end of it
_PLAN_STATUS: Final = {"inProgress": "in_progress", "completed": "completed"}


class CodexEvents:
    """The chunks of one turn. Feed it every notification of the thread.

    Args:
        notes: what is remembered of the thread.
        read: reads a file before it is changed.
        sub_agent: the thread, if it is that of a sub-agent: only its calls are shown, as part of the one that
            started it.
    """

    def __init__(
        self,
        notes: ThreadNotes | None = None,
        *,
        read: Callable[[str], str | None] = diffs.read_text,
        sub_agent: str | None = None,
    ) -> None:
        self.notes = notes or ThreadNotes()
        self.commands: set[str] = set()
        """Ids of the commands of this turn."""
        self._read = read
        self._sub_agent = sub_agent
        self._calls: dict[str, ShownItem] = {}
        self._items: dict[str, dict[str, Any]] = {}
        """Calls without an outcome."""
        self._outputs: dict[str, _Output] = {}
        self._texts: dict[str, str] = {}
        """What was shown of each message."""
        self._reviews = False
        self._results: set[str] = set()
        """Messages of a review, complete."""
        self._thoughts: set[str] = set()
        """Passages of thought that were shown, by item and index."""
        self._open: tuple[type[c.TextEnd] | type[c.ReasoningEnd], str] | None = None
        self._has_prompt = False
        self._compactions: dict[str, int | None] = {}

    # Live

    def feed(self, method: str, params: dict[str, Any]) -> Iterator[c.Chunk]:
        """Yield the chunks for one notification."""
        item, item_id = params.get("item"), str(params.get("itemId"))
        match method:
            case "item/started" if isinstance(item, dict) and "id" in item:
                yield from self.begin(item)
            case "item/completed" if isinstance(item, dict) and "id" in item:
                yield from self.complete(item)
            case "item/agentMessage/delta" | "item/plan/delta":
                yield from self._text(item_id, _delta(params))
            case "item/reasoning/summaryTextDelta":
                yield from self._thought(f"{item_id}.s{params.get('summaryIndex')}", _delta(params))
            case "item/reasoning/textDelta":
                yield from self._thought(f"{item_id}.c{params.get('contentIndex')}", _delta(params))
            case "item/commandExecution/outputDelta" | "item/mcpToolCall/progress" | "item/fileChange/outputDelta":
                yield from self._output(item_id, _delta(params))
            case "item/fileChange/patchUpdated" if item_id in self._calls:
                yield from self._change({"id": item_id, "type": "fileChange", "changes": params.get("changes")})
            case "turn/plan/updated" if self._sub_agent is None:
                yield from _plan(params.get("plan"))
            case "thread/tokenUsage/updated" if self._sub_agent is None:
                yield from self._usage(params.get("tokenUsage"))
            case _:
                yield from self._remark(method, params)

    def _remark(self, method: str, params: dict[str, Any]) -> Iterator[c.Chunk]:
        """Yield what is shown as a notice."""
        match method:
            case "error" if params.get("willRetry") is True:
                yield _notice("Codex tries again", error_text(params.get("error")))
            case "model/rerouted":
                was, now = params.get("fromModel"), params.get("toModel")
                yield _notice("Codex uses another model", f"{now} in place of {was}: {params.get('reason')}")
            case "warning" | "guardianWarning" | "configWarning":
                yield from self._warning(params)
            case "mcpServer/startupStatus/updated" if params.get("status") == "failed":
                why = params.get("error") or "no reason was given"
                yield _notice(f"The MCP server {params.get('name')} could not be started", str(why))
            case _:
                _log.debug("not shown: %s", method)

    def call_of(self, server: str, arguments: Any) -> str | None:
        """Return the running call of an MCP server that a question without its id is about."""
        found = [
            item_id
            for item_id, item in self._items.items()
            if item.get("type") == "mcpToolCall" and item.get("server") == server
        ]
        same = [item_id for item_id in found if self._items[item_id].get("arguments") == arguments]
        return (same or found)[-1] if found else None

    @property
    def _parent(self) -> str | None:
        return None if self._sub_agent is None else self.notes.starters.get(self._sub_agent)

    def item(self, item_id: str) -> dict[str, Any] | None:
        """Return a call without an outcome."""
        return self._items.get(item_id)

    @property
    def open_commands(self) -> set[str]:
        """Commands without an outcome."""
        return self.commands & self._items.keys()

    # Items

    def begin(self, item: dict[str, Any]) -> Iterator[c.Chunk]:
        """Yield the chunks for an item that begins."""
        item_id, kind = str(item["id"]), str(item.get("type"))
        self.notes.ended.discard(item_id)
        if kind == "contextCompaction":
            yield from self._begin_compaction(item_id)
        elif kind == "enteredReviewMode":
            self._reviews = True
        elif kind not in NOT_CALLS:
            yield from self._begin_call(item_id, item, self._read)

    def complete(self, item: dict[str, Any]) -> Iterator[c.Chunk]:
        """Yield the chunks for an item that is complete, whether or not it was begun here."""
        item_id, kind = str(item["id"]), str(item.get("type"))
        if item_id in self.notes.ended:
            return
        if kind in TEXTS:
            yield from self._complete_text(item_id, item.get("text"))
        elif kind == "reasoning":
            yield from self._complete_thought(item_id, item)
        elif kind == "userMessage":
            yield from self._user_message(item_id, item)
        elif kind == "contextCompaction":
            yield from self._complete_compaction(item_id)
        elif kind == "exitedReviewMode":
            yield from self._review(item_id, item.get("review"))
        elif kind not in NOT_CALLS:
            if item_id not in self._calls:
                yield from self._begin_call(item_id, item, None)
            elif kind != "commandExecution":
                yield from self._change(item)
            self._items.pop(item_id, None)
            self._note_starter(item_id, item)
            streamed = self._outputs.pop(item_id, None)
            yield outcome(item, self._calls[item_id], "" if streamed is None else streamed.text)

    def end(self) -> None:
        """End the turn: calls without an outcome are shown as such."""
        self.notes.ended |= self._items.keys()
        self.notes.commands |= self.commands

    def close(self) -> Iterator[c.Chunk]:
        """End the passage that is open."""
        if self._open is not None:
            end, id = self._open
            self._open = None
            yield end(id)

    # Calls

    def _begin_call(
        self, item_id: str, item: dict[str, Any], read: Callable[[str], str | None] | None
    ) -> Iterator[c.Chunk]:
        yield from self.close()
        if item.get("type") == "commandExecution":
            self.commands.add(item_id)
        self._items[item_id] = item
        self._note_starter(item_id, item)
        self._calls[item_id] = shown_item(item, read, self._parent)
        yield announced(item_id, self._calls[item_id])

    def _note_starter(self, item_id: str, item: dict[str, Any]) -> None:
        threads = item.get("receiverThreadIds") if item.get("tool") == "spawnAgent" else None
        for thread_id in threads if isinstance(threads, list) else ():
            self.notes.starters.setdefault(str(thread_id), item_id)

    def _change(self, item: dict[str, Any]) -> Iterator[c.Chunk]:
        """Show a call whose content is known better than when it began, such as the query of a search."""
        item_id = str(item["id"])
        before = self._calls[item_id]
        shown = shown_item(item, None, self._parent)
        if item.get("type") == "fileChange":
            if self._items.get(item_id, {}).get("changes") == item.get("changes"):
                return  # whole files were read before the change
            shown = shown_item(item, self._read if item.get("status") is None else None, self._parent)
            self._items[item_id] = {**self._items.get(item_id, {}), "changes": item.get("changes")}
        if (shown.title, shown.display) != (before.title, before.display):
            self._calls[item_id] = shown
            display = msgspec.to_builtins(shown.display)
            yield c.Data("tool-display", {"tool_call_id": item_id, "title": shown.title, "display": display})

    def _output(self, item_id: str, delta: str) -> Iterator[c.Chunk]:
        if item_id not in self._items or not delta:
            return
        output = self._outputs.setdefault(item_id, _Output())
        if output.add(delta):
            yield c.ToolOutputAvailable(item_id, {"text": output.shown}, True, dynamic=True)

    # Messages and thoughts

    def _text(self, item_id: str, delta: str) -> Iterator[c.Chunk]:
        if self._sub_agent is not None or not delta:
            return
        yield from self._passage(c.TextStart, c.TextEnd, item_id)
        self._texts[item_id] = self._texts.get(item_id, "") + delta
        yield c.TextDelta(item_id, delta)

    def _complete_text(self, item_id: str, text: Any) -> Iterator[c.Chunk]:
        """Yield what was not streamed of a message: all of it, or its end."""
        shown = self._texts.get(item_id, "")
        if isinstance(text, str) and text.startswith(shown) and (shown or text.strip() not in self._results):
            yield from self._text(item_id, text[len(shown) :])
        if self._open == (c.TextEnd, item_id):
            yield from self.close()
        if self._reviews and isinstance(text, str):
            self._results.add(text.strip())

    def _thought(self, passage: str, delta: str) -> Iterator[c.Chunk]:
        if self._sub_agent is not None or not delta:
            return
        self._thoughts.add(passage)
        yield from self._passage(c.ReasoningStart, c.ReasoningEnd, passage)
        yield c.ReasoningDelta(passage, delta)

    def _complete_thought(self, item_id: str, item: dict[str, Any]) -> Iterator[c.Chunk]:
        for mark, name in (("s", "summary"), ("c", "content")):
            texts = item.get(name)
            for index, text in enumerate(texts if isinstance(texts, list) else ()):
                if f"{item_id}.{mark}{index}" not in self._thoughts and isinstance(text, str):
                    yield from self._thought(f"{item_id}.{mark}{index}", text)
        if self._open is not None and self._open[1].rpartition(".")[0] == item_id:
            yield from self.close()

    def _passage(
        self,
        start: type[c.TextStart] | type[c.ReasoningStart],
        end: type[c.TextEnd] | type[c.ReasoningEnd],
        id: str,
    ) -> Iterator[c.Chunk]:
        if self._open != (end, id):
            yield from self.close()
            self._open = (end, id)
            yield start(id)

    def _user_message(self, item_id: str, item: dict[str, Any]) -> Iterator[c.Chunk]:
        """Yield the first one is the prompt itself; others reached the turn while it ran."""
        is_prompt, self._has_prompt = not self._has_prompt, True
        text = user_text(item.get("content"))
        if not is_prompt and text and self._sub_agent is None:
            yield from self.close()
            yield c.SteeringMessage(item_id, [{"type": "text", "text": text}])

    def _review(self, item_id: str, text: Any) -> Iterator[c.Chunk]:
        """Yield the result of a review. Codex reports it as a message too, before or after."""
        if isinstance(text, str) and text.strip() and text.strip() not in self._results:
            self._results.add(text.strip())
            yield from self._text(item_id, text)
            yield from self.close()

    # The rest

    def _begin_compaction(self, item_id: str) -> Iterator[c.Chunk]:
        self._compactions[item_id] = self.notes.used
        if self._sub_agent is None and self.notes.used is not None:
            yield c.Data("compaction", {"id": item_id, "status": "in_progress"}, item_id)

    def _complete_compaction(self, item_id: str) -> Iterator[c.Chunk]:
        if self._sub_agent is not None:
            return
        before = self._compactions.get(item_id)
        if before is None:  # how much was shortened is not known
            shown = shown_item({"type": "Shorten the conversation"})
            yield announced(item_id, shown)
            yield c.ToolOutputAvailable(item_id, {"text": "The conversation was shortened."}, dynamic=True)
            return
        data = {"id": item_id, "status": "completed", "tokens_before": before, "tokens_after": self.notes.used}
        yield c.Data("compaction", data, item_id)

    def _usage(self, usage: Any) -> Iterator[c.Chunk]:
        last = usage.get("last") if isinstance(usage, dict) else None
        used = last.get("totalTokens") if isinstance(last, dict) else None
        if isinstance(used, int):
            self.notes.used = used
            data = {"used": used, "size": usage.get("modelContextWindow"), "cost_usd": None}
            yield c.Data("usage", data, "usage", transient=True)

    def _warning(self, params: dict[str, Any]) -> Iterator[c.Chunk]:
        text = str(params.get("message") or params.get("summary") or "")
        details = params.get("details")
        if text and text not in self.notes.warnings:
            self.notes.warnings.add(text)
            yield _notice("Codex warns", f"{text} {details}" if details else text)


class _Output:
    """What a running command wrote. Its end is shown; less often the more there is, since all of it is sent again."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        self._shown_length = 0

    @property
    def text(self) -> str:
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    @property
    def shown(self) -> str:
        self._shown_length = self._length
        return plain(self.text[-_SHOWN_LETTERS:])

    def add(self, delta: str) -> bool:
        """Add a piece. Returns whether it is time to show it."""
        self._pieces.append(delta)
        self._length += len(delta)
        return self._length - self._shown_length > self._shown_length // 8


def user_text(content: Any) -> str:
    """Return the text of what a user sent; files are named."""
    pieces: list[str] = []
    for part in content if isinstance(content, list) else ():
        match part:
            case {"type": "text", "text": str(text)}:
                pieces.append(text)
            case {"type": "localImage" | "localAudio" | "mention" | "skill", "path": str(path)}:
                pieces.append(f"[{path}]")
    return "".join(pieces)


def error_text(error: Any) -> str:
    """Return what a failed turn or call says, as text for the user."""
    message = error.get("message") if isinstance(error, dict) else error
    text = str(message or "no reason was given")
    try:  # servers of models answer with JSON, which Codex passes on as text
        inner = msgspec.json.decode(text)
    except msgspec.DecodeError:
        inner = None
    while isinstance(inner, dict) and ("error" in inner or "message" in inner):
        inner = inner.get("error", inner.get("message"))
    if isinstance(inner, str) and inner:
        text = inner
    details = error.get("additionalDetails") if isinstance(error, dict) else None
    return plain(f"{text} ({details})" if details else text)


def _delta(params: dict[str, Any]) -> str:
    found = params.get("delta", params.get("message"))
    return found if isinstance(found, str) else ""


def _plan(steps: Any) -> Iterator[c.Chunk]:
    entries = [
        {"content": plain(step["step"]), "status": _PLAN_STATUS.get(str(step.get("status")), "pending")}
        for step in (steps if isinstance(steps, list) else ())
        if isinstance(step, dict) and isinstance(step.get("step"), str)
    ]
    yield c.Data("plan", {"entries": entries}, "plan")


def _notice(title: str, description: str) -> c.Chunk:
    data = {"severity": "warning", "title": title, "description": description or None}
    return c.Data("notice", data, transient=True)

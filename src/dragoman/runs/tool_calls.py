"""What is known about each tool call of a run: its command, input, output, exit code, changes and times.

Agents report these in different places: the protocol's content, raw input and output, terminals of the client, or
terminals of their own in `_meta`. Owns that reading, and the limits of what is kept. Does not judge anything.
"""

from __future__ import annotations

import re
from time import gmtime, strftime
from typing import TYPE_CHECKING, Any, Final

from dragoman.client.reading import ToolInput
from dragoman.runs import result as results
from dragoman.schema import UNSET, v1
from dragoman.state.reported_exit import own_terminal_end, own_terminal_output, reported_exit
from dragoman.state.tools import FINISHED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dragoman.client.terminals import Look
    from dragoman.state import ToolCallState

# Characters of an input, an output or one side of a diff: what a reader can use, and small next to the result.
_HEAD: Final = 16 * 1024
_TAIL: Final = 48 * 1024
_DEPTH: Final = 20
_OUTPUT_NAMES: Final = ("aggregated_output", "output", "stdout", "content", "result", "text", "error", "message")
_EXIT_TEXT: Final = re.compile(r"\[?exit code:? (-?\d{1,3})\]?\s*\Z", re.IGNORECASE)


class ToolWatch:
    """Notes the tool calls of one run as they are reported, and describes them."""

    def __init__(self, root: str) -> None:
        self.look: Callable[[str], Look | None] = lambda terminal_id: None
        self.statuses: dict[str, str] = {}
        """The status of each call, as the agent reported it."""
        self._root = root
        self._started: dict[str, float] = {}
        self._ended: dict[str, float] = {}
        self._outputs: dict[str, str] = {}  # of terminals that agents run themselves
        self._exits: dict[str, int | None] = {}

    def note(self, update: v1.ToolCall | v1.ToolCallUpdate, at: float) -> None:
        """Note that a call is new or has changed."""
        id = update.tool_call_id
        self.begin(id, at)
        status = update.status or self.statuses.get(id, "pending")
        self.statuses[id] = status
        if status in FINISHED:
            self._ended.setdefault(id, at)
        output = own_terminal_output(update.meta)
        if output is not None:
            terminal_id, text = output
            self._outputs[terminal_id] = (self._outputs.get(terminal_id, "") + text)[-_TAIL:]
        ending = own_terminal_end(update.meta)
        if ending is not None:
            self._exits[ending[0]] = ending[1]

    def begin(self, tool_call_id: str, at: float) -> None:
        """Note that a call is known from now on; some agents mention it only when they ask for permission."""
        self._started.setdefault(tool_call_id, at)

    def describe(self, call: ToolCallState) -> results.ToolCall:
        """Describe a call with its reported status; the state marks open calls as failed if the agent dies."""
        status = self.statuses.get(call.id, call.status)
        found = ToolInput(self._root)
        if call.raw_input is not UNSET:
            found.read(call.raw_input, is_command=call.kind == "execute")
        diffs = [item for item in call.content if isinstance(item, v1.Diff)]
        terminals = [item.terminal_id for item in call.content if isinstance(item, v1.Terminal)]
        paths = [place.path for place in call.locations] + [diff.path for diff in diffs] + list(found.paths)
        output = self._output(call, terminals, is_over=status in FINISHED)
        return results.ToolCall(
            id=call.id,
            title=call.title,
            kind=call.kind,
            status=status,
            is_open=status not in FINISHED,
            locations=[results.RunLocation(place.path, place.line or None) for place in call.locations],
            terminals=terminals,
            command=_command(found) or self._shown_command(terminals),
            paths=list(dict.fromkeys(paths)),
            input=None if call.raw_input is UNSET else _bounded(call.raw_input),
            output=None if output is None else cut(output),
            exit_code=self._exit_code(call, terminals, output),
            diffs=[_diff(diff) for diff in diffs],
            started_at=_written(self._started.get(call.id)),
            ended_at=_written(self._ended.get(call.id)),
        )

    def _output(self, call: ToolCallState, terminals: Sequence[str], *, is_over: bool) -> str | None:
        shown = [text for terminal in terminals if (text := self._terminal_text(terminal)) is not None]
        if shown:
            return "".join(shown)
        if call.id in self._outputs:
            return self._outputs[call.id]
        if not is_over:
            return None  # until then some agents show the input as content
        texts = [
            item.content.text
            for item in call.content
            if isinstance(item, v1.Content) and isinstance(item.content, v1.TextContent)
        ]
        if any(texts):
            return "\n".join(texts)
        return None if call.raw_output is UNSET or call.raw_output is None else _text_of(call.raw_output)

    def _terminal_text(self, terminal_id: str) -> str | None:
        look = self.look(terminal_id)
        return self._outputs.get(terminal_id) if look is None else look.text

    def _shown_command(self, terminals: Sequence[str]) -> str | None:
        looks = (self.look(terminal) for terminal in terminals)
        return next((look.command for look in looks if look is not None), None)

    def _exit_code(self, call: ToolCallState, terminals: Sequence[str], output: str | None) -> int | None:
        for terminal_id in (*terminals, call.id):
            look = self.look(terminal_id)
            if look is not None and not look.is_running:
                return look.exit_code
            if terminal_id in self._exits:
                return self._exits[terminal_id]
        reported = reported_exit(call)
        if reported is None and output is not None and call.kind == "execute":
            match = _EXIT_TEXT.search(output[-100:])
            reported = None if match is None else int(match.group(1))
        return reported


def cut(text: str) -> str:
    """Return the text, or its beginning and its end if it is too long."""
    left_out = len(text) - _HEAD - _TAIL
    if left_out <= 0:
        return text
    return f"{text[:_HEAD]}\n[cut by dragoman: {left_out} characters]\n{text[-_TAIL:]}"


def _bounded(value: Any, depth: int = 0) -> Any:
    """Return JSON whose texts are cut and whose depth is limited."""
    if isinstance(value, str):
        return cut(value)
    if isinstance(value, dict | list) and depth > _DEPTH:
        return "[cut by dragoman: nested too deeply]"
    if isinstance(value, dict):
        return {key: _bounded(member, depth + 1) for key, member in value.items()}
    return [_bounded(item, depth + 1) for item in value] if isinstance(value, list) else value


def _diff(diff: v1.Diff) -> results.RunDiff:
    old = diff.old_text if isinstance(diff.old_text, str) else None
    return results.RunDiff(diff.path, None if old is None else cut(old), cut(diff.new_text))


def _command(found: ToolInput) -> str | None:
    return "\n".join(command.text for command in found.commands) or None


def _text_of(raw: Any) -> str:
    """Return the raw output of a tool as text: the member that holds it, or everything as JSON."""
    if isinstance(raw, str):
        return raw
    if isinstance(raw, list) and raw and all(isinstance(item, dict) for item in raw):
        return "\n".join(map(_text_of, raw))
    if isinstance(raw, dict):
        for name in _OUTPUT_NAMES:
            if isinstance(raw.get(name), str) and raw[name]:
                return str(raw[name])
    from msgspec import json

    return json.encode(raw).decode(errors="replace")


def _written(at: float | None) -> str | None:
    """Return a time as RFC 3339, with milliseconds."""
    if at is None:
        return None
    return f"{strftime('%Y-%m-%dT%H:%M:%S', gmtime(at))}.{int(at * 1000) % 1000:03}Z"

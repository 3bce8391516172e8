"""Tool calls and terminals of an agent of version 2, as a client of version 1 is shown them.

Version 2 adds content to a tool call piece by piece, version 1 has only the whole list. Sending the list for each
piece would grow with the square of the output, so it is sent when its size has doubled since it was last sent, when
the tool call ends, and when the session becomes idle: of a tool call that ends once, at most three times its output.
"""

from __future__ import annotations

from base64 import b64decode
from codecs import getincrementaldecoder
from typing import TYPE_CHECKING, Any, Final

from dragoman.text.terminal import plain
from dragoman.versions.frames import Frame, items, members, objects, text
from dragoman.versions.version2 import to_v1

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.versions.losses import Losses

_FINAL: Final = ("completed", "failed")


class _Terminal:
    """The output of one terminal, decoded as it comes."""

    def __init__(self) -> None:
        self.tool_id: str | None = None
        """The first tool call that refers to it; its output is shown there."""
        self.cwd: str | None = None
        self.length = 0
        self._decode = getincrementaldecoder("utf-8")("replace").decode
        self._pieces: list[str] = []

    def add(self, data: Any) -> str:
        """Append bytes; return the text they complete."""
        piece = self._decode(_bytes(data))
        self._pieces.append(piece)
        self.length += len(piece)
        return piece

    def replace(self, data: Any) -> str | None:
        """Take the whole output; return what is new of it, or None if it does not continue the output so far."""
        before = self.text()
        self._decode = getincrementaldecoder("utf-8")("replace").decode
        now = self._decode(_bytes(data))
        self._pieces, self.length = [now], len(now)
        return now[len(before) :] if now.startswith(before) else None

    def text(self) -> str:
        whole = "".join(self._pieces)
        self._pieces = [whole]
        return whole


def _bytes(data: Any) -> bytes:
    try:
        return b64decode(text(data), validate=False)
    except ValueError:
        return b""


class _Tool:
    __slots__ = ("content", "is_final", "sent_size", "size", "title")

    def __init__(self) -> None:
        self.title: str | None = None
        self.content: list[list[Frame] | str] = []
        """For each item what it became in version 1, or the id of a terminal."""
        self.size = 0
        self.sent_size = 0
        self.is_final = False


class ShownTools:
    """What the client knows of the tool calls and terminals of one session.

    Args:
        send: Sends an update of the session.
        reads_terminals: The client announced that it reads terminals in `_meta`.
    """

    def __init__(self, send: Callable[[Frame], None], losses: Losses, *, reads_terminals: bool) -> None:
        self._send = send
        self._losses = losses
        self._reads_terminals = reads_terminals
        self._tools: dict[str, _Tool] = {}
        self._terminals: dict[str, _Terminal] = {}
        self._unsent: dict[str, None] = {}

    def title_of(self, tool_id: Any) -> str | None:
        """Return the title that the client was last shown."""
        tool = self._tools.get(tool_id) if isinstance(tool_id, str) else None
        return None if tool is None else tool.title

    def patch(self, update: Frame) -> Frame:
        """Return the members of a tool call in a permission request; it changes nothing that is known."""
        made = to_v1.tool_patch(update, self._losses)
        if "content" in update:
            content: list[Frame] = []
            for part in objects(update["content"]):
                if part.get("type") != "terminal":
                    content += to_v1.tool_content(part, self._losses)
            made["content"] = content
        return made

    def on_tool(self, update: Frame) -> None:
        """Translate a tool_call_update: the first of an id announces the tool call."""
        tool_id = update.get("toolCallId")
        if not isinstance(tool_id, str):
            return
        made = to_v1.tool_patch(update, self._losses)
        tool = self._tools.get(tool_id)
        is_new = tool is None
        if tool is None:
            tool = self._tools[tool_id] = _Tool()
        if isinstance(made.get("title"), str):
            tool.title = made["title"]
        if "content" in update:
            if update["content"] is None:
                self._losses.add("tool-cleared")
            self._replace_content(tool_id, tool, items(update["content"]), made)
        was_final = tool.is_final
        if "status" in made:
            tool.is_final = made["status"] in _FINAL
        if tool_id in self._unsent and tool.is_final and not was_final:
            self._add_content(tool_id, tool, made)
        if is_new:
            made.setdefault("title", text(update.get("name")) or "Tool call")
            tool.title = made["title"]
        self._send({"sessionUpdate": "tool_call" if is_new else "tool_call_update", **made})

    def on_content_chunk(self, update: Frame) -> None:
        """Add one more item of content."""
        tool_id, part = update.get("toolCallId"), members(update.get("content"))
        if not isinstance(tool_id, str):
            return
        if tool_id not in self._tools:
            self.on_tool({"toolCallId": tool_id})
        self._losses.add("content-chunks")
        tool = self._tools[tool_id]
        self._append(tool_id, tool, part, {})
        self._grown(tool_id, tool)

    def on_terminal(self, update: Frame) -> None:
        """Translate a terminal_update: command, folder, the whole output, or the exit."""
        terminal_id = update.get("terminalId")
        if not isinstance(terminal_id, str):
            return
        terminal = self._terminals.setdefault(terminal_id, _Terminal())
        if isinstance(update.get("cwd"), str):
            terminal.cwd = update["cwd"]
        if update.get("size") or (not self._reads_terminals and (update.get("command") or update.get("exitStatus"))):
            self._losses.add("terminal-state")
        if isinstance(update.get("output"), dict):
            before = terminal.length
            new = terminal.replace(update["output"].get("data"))
            self._on_output(terminal_id, terminal, new, grown=abs(terminal.length - before))
        ended = update.get("exitStatus")
        if isinstance(ended, dict) and terminal.tool_id is not None:
            if self._reads_terminals:
                status = {"exit_code": ended.get("exitCode"), "signal": ended.get("signal")}
                self._send_meta(terminal.tool_id, {"terminal_exit": {"terminal_id": terminal_id, **status}})
            else:
                self._flush(terminal.tool_id)

    def on_output_chunk(self, update: Frame) -> None:
        """Take bytes that a terminal wrote."""
        terminal_id = update.get("terminalId")
        if not isinstance(terminal_id, str):
            return
        terminal = self._terminals.setdefault(terminal_id, _Terminal())
        piece = terminal.add(update.get("data"))
        self._on_output(terminal_id, terminal, piece, grown=len(piece))

    def flush(self) -> None:
        """Send what is held back, and count terminals that were never shown: the session is idle."""
        for tool_id in list(self._unsent):
            self._flush(tool_id)
        for terminal in self._terminals.values():
            if terminal.tool_id is None and terminal.length:
                self._losses.add("terminal-unused")
                terminal.length = 0

    def forget(self) -> None:
        """Forget everything: the session is loaded again, and it all comes again."""
        self._tools.clear()
        self._terminals.clear()
        self._unsent.clear()

    def _on_output(self, terminal_id: str, terminal: _Terminal, new: str | None, *, grown: int) -> None:
        tool_id = terminal.tool_id
        if tool_id is None:
            return
        if self._reads_terminals:
            if new is None:
                self._losses.add("terminal-output")
            elif new:
                self._send_meta(tool_id, {"terminal_output": {"terminal_id": terminal_id, "data": new}})
            return
        self._losses.add("terminal-output")
        tool = self._tools[tool_id]
        tool.size += grown
        self._grown(tool_id, tool)

    def _send_meta(self, tool_id: str, meta: Frame) -> None:
        self._send({"sessionUpdate": "tool_call_update", "toolCallId": tool_id, "_meta": meta})

    def _replace_content(self, tool_id: str, tool: _Tool, content: list[Any], made: Frame) -> None:
        tool.content, tool.size = [], 0
        for part in content:
            self._append(tool_id, tool, members(part), made)
        self._add_content(tool_id, tool, made)

    def _append(self, tool_id: str, tool: _Tool, part: Frame, made: Frame) -> None:
        if part.get("type") != "terminal":
            shown = to_v1.tool_content(part, self._losses)
            tool.content.append(shown)
            tool.size += len(str(shown))
            return
        terminal_id = text(part.get("terminalId"))
        tool.content.append(terminal_id)
        terminal = self._terminals.setdefault(terminal_id, _Terminal())
        if terminal.tool_id is not None:
            return
        terminal.tool_id = tool_id
        tool.size += terminal.length
        if self._reads_terminals:
            about = {"terminal_id": terminal_id, **({"cwd": terminal.cwd} if terminal.cwd else {})}
            meta = {**members(made.get("_meta")), "terminal_info": about}
            if terminal.length:
                meta["terminal_output"] = {"terminal_id": terminal_id, "data": terminal.text()}
            made["_meta"] = meta
        elif terminal.length:
            self._losses.add("terminal-output")

    def _grown(self, tool_id: str, tool: _Tool) -> None:
        self._unsent[tool_id] = None
        if tool.size >= 2 * tool.sent_size:
            self._flush(tool_id)

    def _flush(self, tool_id: str) -> None:
        if tool_id in self._unsent:
            made: Frame = {"sessionUpdate": "tool_call_update", "toolCallId": tool_id}
            self._add_content(tool_id, self._tools[tool_id], made)
            self._send(made)

    def _add_content(self, tool_id: str, tool: _Tool, made: Frame) -> None:
        made["content"] = [item for part in tool.content for item in self._shown(tool_id, part)]
        tool.sent_size = tool.size
        self._unsent.pop(tool_id, None)

    def _shown(self, tool_id: str, part: list[Frame] | str) -> list[Frame]:
        if not isinstance(part, str):
            return part
        if self._reads_terminals:
            return [{"type": "terminal", "terminalId": part}]
        terminal = self._terminals[part]
        output = plain(terminal.text()) if terminal.tool_id == tool_id else ""
        return [{"type": "content", "content": {"type": "text", "text": output}}] if output else []

"""Tool calls with terminals as one client is sent them.

The client that runs a terminal gets it under the id that it knows. One that announced `_meta.terminal_output` gets the
output of foreign terminals in that form. Every other client gets the output so far as text, at most twice a second and
at the end; an editor may refuse a whole tool call that shows a terminal it does not have.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.host.history.terminal_items import logged_output, renamed, reported_output, terminals_in
from dragoman.host.working.served_terminals import LOOK_SECONDS

if TYPE_CHECKING:
    from dragoman.host.clients.attachment import Attachment
    from dragoman.host.history.terminal_items import TerminalPiece
    from dragoman.store.event_log import LogEvent


class TerminalView:
    """What one attached client sees of terminals."""

    def __init__(self, attachment: Attachment) -> None:
        self._to = attachment
        self._session = attachment.session
        self._announced: set[str] = set()
        self._sent_at: dict[str, float] = {}
        self._later: dict[str, asyncio.TimerHandle] = {}

    def update(self, update: bytes, meta: dict[str, Any], number: int) -> None:
        """Show a tool call that shows a terminal, or reports output of one."""
        found: dict[str, Any] = msgspec.json.decode(update)
        shown = terminals_in(found.get("content"))
        reported = reported_output(found)
        if self._to.client.kind.terminal_output:
            self._announce(found, shown)
            self._to.send_own(found, meta, number)
        elif self._owned().keys() >= set(shown) and shown:
            self._to.send_own({**found, "content": renamed(found["content"], self._owned())}, meta, number)
        else:
            self._as_text(found, reported, meta, number)

    def output(self, event: LogEvent) -> None:
        """Show output of a terminal that the host, or the client it delegates to, runs."""
        output = logged_output(event.body)
        if self._to.takes_events or output.terminal in self._owned() or not (output.text or output.is_over):
            return
        if output.terminal not in self._announced:
            self._refresh(output.terminal, event.number, is_over=output.is_over)
            return
        for call, _ in self._session.shown.calls_of(output.terminal):
            self._in_meta(call, output, event.number)

    def close(self) -> None:
        for timer in self._later.values():
            timer.cancel()

    # Inside

    def _owned(self) -> dict[str, str]:
        terminals = self._session.terminals
        return {} if terminals is None else terminals.owned_by(self._to.client)

    def _announce(self, update: dict[str, Any], shown: list[str]) -> None:
        """Announce a terminal of the host as agents do that run commands themselves, which clients know."""
        fresh = [id for id in shown if id not in self._announced]
        meta = update.get("_meta")
        known = meta if isinstance(meta, dict) else {}
        if fresh and "terminal_info" not in known:
            update["_meta"] = {**known, "terminal_info": {"terminal_id": fresh[0], "cwd": self._session.record.cwd}}
        self._announced.update(fresh)

    def _in_meta(self, call: str, output: TerminalPiece, number: int) -> None:
        meta: dict[str, Any] = {}
        if output.text:
            meta["terminal_output"] = {"terminal_id": output.terminal, "data": output.text}
        if output.is_over:
            ended = {"exit_code": output.exit_code, "signal": output.signal}
            meta["terminal_exit"] = {"terminal_id": output.terminal, **ended}
        update = {"sessionUpdate": "tool_call_update", "toolCallId": call, "_meta": meta}
        self._to.send_own(update, {}, number)

    def _as_text(
        self, update: dict[str, Any], reported: TerminalPiece | None, meta: dict[str, Any], number: int
    ) -> None:
        own = update.get("_meta")
        if isinstance(own, dict):
            kept = {name: value for name, value in own.items() if not name.startswith("terminal_")}
            update = {
                **{name: value for name, value in update.items() if name != "_meta"},
                **({"_meta": kept} if kept else {}),
            }
        if isinstance(update.get("content"), list):
            update["content"] = self._session.shown.as_text(update["content"])
        rest = update.keys() - {"sessionUpdate", "toolCallId", "_meta"}
        if rest or update["sessionUpdate"] == "tool_call" or update.get("_meta"):
            self._to.send_own(update, meta, number)
        if reported is not None:
            self._refresh(reported.terminal, number, is_over=reported.is_over)

    def _refresh(self, terminal: str, number: int, *, is_over: bool = False) -> None:
        """Send the output so far again, now or when the last time is long enough ago."""
        wait = self._sent_at.get(terminal, 0.0) + LOOK_SECONDS - monotonic()
        timer = self._later.pop(terminal, None)
        if timer is not None:
            timer.cancel()
        if wait > 0 and not is_over:
            loop = asyncio.get_running_loop()
            self._later[terminal] = loop.call_later(wait, self._refresh, terminal, number)
            return
        self._sent_at[terminal] = monotonic()
        for call, content in self._session.shown.calls_of(terminal):
            update = {
                "sessionUpdate": "tool_call_update",
                "toolCallId": call,
                "content": self._session.shown.as_text(content),
            }
            self._to.send_own(update, {}, number)

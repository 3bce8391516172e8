"""A client that is attached to a session: a cursor on the session's log.

Owns what this client has been sent. Events never wait in memory for it: when its socket is full the cursor stops, and
goes on from the log when there is room. So a slow client slows down no other, and one that comes back goes on behind
the number it names. One that stays too far behind is cut off.

`pump` is called after each commit and whenever something may go on. In one of four states it does nothing: the answer
to the request that attaches is not written (`begin` was not called), the socket is full (`_is_waiting`), a page of the
log is being read (`_is_reading`), or the answer to a prompt is on its way (`_is_held`). What ends the state calls
`pump` again, so that there is one sender at a time.

A client that attaches again gets a new attachment at once, which takes over the prompts that the client waits for:
their answers stand behind the updates of their turns, wherever those come from.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.errors import StoreError
from dragoman.host.history.frames import notice_frame, stored_update, update_frame, user_chunk
from dragoman.host.history.joined_text import TextJoiner
from dragoman.host.history.replay import blocks_of, message_id_of
from dragoman.host.history.terminal_items import logged_output, renamed, reported_output, terminals_in
from dragoman.host.working.asking import answered_frame
from dragoman.host.working.prompts import TAKEN
from dragoman.host.working.served_terminals import LOOK_SECONDS
from dragoman.host.working.uploads import REFERENCE
from dragoman.wire import write_notification

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from dragoman.host.connection import HostConnection
    from dragoman.host.history.frames import StoredUpdate
    from dragoman.host.history.terminal_items import TerminalPiece
    from dragoman.host.session import HostedSession
    from dragoman.host.session_log import TextPace
    from dragoman.store.event_log import LogEvent

_TOOLS: Final = frozenset(("tool_call", "tool_call_update"))
_PROMPTS: Final = 32  # twice as many as can wait in a session


class Attachment:
    """One client on one session."""

    def __init__(self, session: HostedSession, client: HostConnection, cursor: int) -> None:
        self.session = session
        self.client = client
        self.cursor = cursor
        self._id = msgspec.json.encode(session.id)
        self._outbox = client.peer.outbox
        self._has_begun = False
        self._is_waiting = False
        self._is_reading = False
        self._is_held = False
        self._is_over = False
        self.takes_events = False
        """It gets the events of its runs, terminals included, and shows a tool call's terminals from them."""
        self._prompts: dict[int, bytes] = {}
        self._filled: set[int] = set()
        self._awaited: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._terminals = TerminalView(self)
        self._is_joined = client.kind.batch_ms > 0
        self._joiner = TextJoiner(self._id) if self._is_joined else None
        self.pace: TextPace | None = None
        """When it is sent text, if it takes it joined."""
        # Only what is committed while it does not keep up counts against its limit, not the history that it asked for.
        self._is_behind = False
        self._behind_from = 0
        self._passed_bytes = 0
        self._stalled: asyncio.TimerHandle | None = None

    def take_over(self, earlier: Attachment) -> None:
        """Wait for what an attachment of the same client waits for, which ends now."""
        self._awaited, earlier._awaited = earlier._awaited, {}
        self.takes_events = earlier.takes_events

    def begin(self) -> None:
        """Send what is behind the cursor, now that the answer to the request that attaches was written."""
        self._has_begun = True
        outcomes = self.session.prompts.outcomes
        for id in [id for id in self._awaited if id in outcomes and outcomes[id]["seq"] <= self.cursor]:
            self.refuse(id, outcomes[id])  # its turn was in the history
        self.pump()

    def await_outcome(self, prompt_id: str) -> asyncio.Future[dict[str, Any]]:
        """Return the outcome of a prompt, once everything before it was sent to this client."""
        if prompt_id not in self._awaited:
            earlier = self.session.prompts.take_awaited(prompt_id)
            self._awaited[prompt_id] = earlier or asyncio.get_running_loop().create_future()
        return self._awaited[prompt_id]

    def awaits(self, prompt_id: str) -> bool:
        """Whether this client waits for the outcome of a prompt."""
        return prompt_id in self._awaited

    def forget(self, prompt_id: str) -> None:
        """Hold nothing back for the outcome of a prompt any more: the client does not wait for it."""
        _ = self._awaited.pop(prompt_id, None)

    def refuse(self, prompt_id: str, outcome: dict[str, Any]) -> None:
        """Give the outcome of a prompt whose event does not come: it cannot be kept, or is behind the client."""
        waiting = self._awaited.pop(prompt_id, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(outcome)

    def pump(self) -> None:
        """Send what the client has not got yet, as far as there is room."""
        if self._is_waiting or self._is_reading:
            if self._is_behind:
                self._judge_size()
            return
        if self._is_held or self._is_over or not self._has_begun:
            return
        log, outbox, knows_us = self.session.log, self._outbox, self.client.kind.knows_us
        while self.cursor < log.head and not self._is_over:
            if outbox.is_full:
                self._wait()
                return
            if self.pace is not None and self.pace.holds(self):
                return
            # One that is behind counts what it passes, so that it does not get pieces; nor one that holds text.
            is_alone = self._is_behind or (self._joiner is not None and self._joiner.is_open)
            run = None if is_alone else log.shared_run(self.cursor, with_number=knows_us, is_joined=self._is_joined)
            if run is not None:
                self.cursor = run.last
                self.client.peer.post(run.data)
                continue
            events = log.tail(self.cursor)
            if events is None:
                self._read(self._read_page())
                return
            if self._pass(events):
                return
        self._is_behind = False

    def _read(self, reading: Coroutine[Any, Any, None]) -> None:
        self._is_reading = True
        _ = self.client.run(reading)

    async def _read_page(self) -> None:
        """Send a page of the log, and look whether the tail begins behind it: that and `pump` are one step."""
        try:
            events = await self.session.log.read(self.cursor)
        except StoreError as error:
            self._cut_off(f"the log of the session cannot be read: {error}")
            return
        finally:
            self._is_reading = False
        # A session that was deleted meanwhile has no events; a client that left gets none.
        if events and not self._is_over and not self._pass(events):
            self.pump()

    async def _read_prompt(self, number: int) -> None:
        """Get the prompt of a turn whose beginning the client is at, if it did not come along the cursor."""
        try:
            events = await self.session.log.read(number - 1, 1)
        except StoreError as error:
            self._cut_off(f"the log of the session cannot be read: {error}")
            return
        finally:
            self._is_reading = False
        found = events[0] if events else None
        # In the place of a prompt that is lost there is a notice.
        is_there = found is not None and found.number == number and found.kind == "prompt"
        self._prompts[number] = found.body if found is not None and is_there else b""
        self.pump()

    async def _fill_prompt(self, number: int, body: bytes) -> None:
        """Get the data of the attachments of a prompt, for a client that does not take their names."""
        try:
            self._prompts[number] = await self.session.uploads.fill_prompt(body, self.session.record.principal)
            self._filled.add(number)
        finally:
            self._is_reading = False
        self.pump()

    def _pass(self, events: list[LogEvent]) -> bool:
        """Move the cursor over events; True if nothing may follow for now."""
        log, knows_us = self.session.log, self.client.kind.knows_us
        frames: list[bytes] = []
        first = events[0]
        joiner = self._joiner
        for event in events:
            # What comes next is the same bytes for other clients: `pump` goes on with the run.
            is_alone = self._is_behind or (joiner is not None and joiner.is_open)
            if event is not first and not frames and not is_alone and log.begins_run(event):
                return False
            self.cursor = event.number
            if self._is_behind and event.number > self._behind_from:
                self._passed_bytes += len(event.body)
            if joiner is not None and joiner.take(event, frames):
                continue
            frame = log.shared_frame(event, with_number=knows_us)
            if frame is not None:
                frames.append(frame)
                continue
            if frames:
                self.client.peer.post(b"".join(frames))
                frames = []
            if self._send(event):
                return True
        # The text at the end of a page goes on with the next page.
        if joiner is not None and log.is_in_tail(self.cursor):
            joiner.flush(frames)
        if frames:
            self.client.peer.post(b"".join(frames))
        return False

    def answered(self) -> None:
        """Let what comes after the answer to a prompt follow, now that the answer was written."""
        self._is_held = False
        self.pump()

    def detach(self) -> None:
        """Send nothing more; the answers to its prompts do not wait for its place in the log any more."""
        self._is_over = True
        self._terminals.close()
        if self.pace is not None:
            self.pace.leave(self)
        if self._stalled is not None:
            self._stalled.cancel()
        awaited, self._awaited = self._awaited, {}
        for id, waiting in awaited.items():
            self.session.prompts.await_outcome(id, waiting)

    # Slow clients

    def _wait(self) -> None:
        self._is_waiting = True
        if not self._is_behind:
            self._is_behind = True
            self._behind_from, self._passed_bytes = self.session.log.head, self.session.log.published_bytes
        seconds = self.client.settings.behind_seconds
        self._stalled = asyncio.get_running_loop().call_later(
            seconds, self._cut, f"it read nothing for {seconds:g} seconds"
        )
        _ = self.client.run(self._go_on())

    async def _go_on(self) -> None:
        try:
            await self._outbox.room()
        finally:
            self._is_waiting = False
            if self._stalled is not None:
                self._stalled.cancel()
        self.pump()

    def _judge_size(self) -> None:
        behind = self.session.log.published_bytes - self._passed_bytes
        if behind > self.client.settings.behind_bytes:
            self._cut(f"it is {behind} bytes behind")

    def _cut(self, why: str) -> None:
        self._cut_off(f"the client does not keep up: {why}; it may connect again and resume")

    def _cut_off(self, why: str) -> None:
        if not self._is_over:
            self._is_over = True
            self.client.cut_off(why)

    # One event

    def _send(self, event: LogEvent) -> bool:
        """Send what the event means to this client; True if nothing may follow for now."""
        match event.kind:
            case "update":
                self._update(stored_update(event.body), event)
            case "prompt":
                self._prompts[event.number] = event.body
                if len(self._prompts) > _PROMPTS:
                    del self._prompts[next(iter(self._prompts))]
            case "start":
                self._started(event)
            case "question":
                self.session.questions.show(msgspec.json.decode(event.body).get("questionId"), self.client)
            case "answer":
                self._answered(event)
            case "end" | "queue":
                self._ended(event)
            case "setting":
                self._setting(event)
            case "terminal":
                self._terminals.output(event)
            case "notice":
                self._notice(event)
            case "extension":
                self._extension(event)
            case _:
                pass
        return self._is_held or self._is_reading

    def _update(self, stored: StoredUpdate, event: LogEvent) -> None:
        update, meta, child, variant = stored
        kind = self.client.kind
        if variant in _TOOLS and b'"terminal' in update and not self.takes_events:
            self._terminals.update(update, meta, event)
            return
        converted = kind.convert(update, variant)
        if converted is None or (child is not None and not kind.unstable):
            return
        id = self._id if child is None else msgspec.json.encode(child)
        self.client.peer.post(update_frame(id, converted, meta, event.number if kind.knows_us else None, event.at))

    def send_own(self, update: dict[str, Any] | bytes, meta: dict[str, Any], event: LogEvent) -> None:
        """Send an update that the host made, or changed, for this client."""
        data = update if isinstance(update, bytes) else msgspec.json.encode(update)
        number = event.number if self.client.kind.knows_us else None
        self.client.peer.post(update_frame(self._id, data, meta, number, event.at))

    def _converted(self, update: dict[str, Any], event: LogEvent) -> None:
        data = self.client.kind.convert(msgspec.json.encode(update), str(update.get("sessionUpdate")))
        if data is not None:
            self.send_own(data, {}, event)

    def _started(self, event: LogEvent) -> None:
        """Show the others a prompt when its turn starts; its sender shows it already."""
        found: dict[str, Any] = msgspec.json.decode(event.body)
        is_own, number = found.get("by") == self.client.key, found.get("prompt")
        if not is_own and isinstance(number, int) and number not in self._prompts:
            self.cursor = event.number - 1  # the event comes again, with its prompt
            self._read(self._read_prompt(number))
            return
        prompt = b"" if is_own else self._prompts.get(number or 0, b"")
        if REFERENCE in prompt and not self.client.kind.attachments and number not in self._filled:
            self.cursor = event.number - 1  # the event comes again, with the data of its attachments
            self._read(self._fill_prompt(number or 0, prompt))
            return
        if is_own or self.client.kind.activity:
            self._notify("_dragoman/turn_started", event)
        if is_own:
            return
        self._prompts.pop(number or 0, None)
        self._filled.discard(number or 0)
        for block in blocks_of(prompt) if prompt else ():
            self.send_own(user_chunk(block, message_id_of(event.body)), {}, event)

    def _ended(self, event: LogEvent) -> None:
        found: dict[str, Any] = msgspec.json.decode(event.body)
        self._terminals.flush()
        waiting = self._awaited.pop(str(found.get("promptId")), None)
        if waiting is not None and not waiting.done():
            self._is_held = True  # the answer is written in a later turn of the loop
            waiting.set_result(found)
        elif not found.get(TAKEN):  # the turn goes on
            self._notify("_dragoman/turn_ended", event)

    def _setting(self, event: LogEvent) -> None:
        found: dict[str, Any] = msgspec.json.decode(event.body)
        if found.get("by") != self.client.key:
            for update in found.get("updates") or ():
                self._converted(update, event)

    def _notice(self, event: LogEvent) -> None:
        found = msgspec.json.decode(event.body)
        text = str(found.get("text"))
        if self.client.kind.notices:
            self.send_own({"sessionUpdate": "notice", "severity": "info", "title": text}, {}, event)
        elif self.client.kind.knows_us:
            self.client.peer.post(notice_frame(self.session.id, text, found.get("kind")))

    def _extension(self, event: LogEvent) -> None:
        found: dict[str, Any] = msgspec.json.decode(event.body)
        child, by = found.get("child"), found.get("by")
        if (child is not None and not self.client.kind.unstable) or (by is not None and by != self.client.key):
            return
        params = {"sessionId": child or self.session.id, **found.get("params", {})}
        self.client.peer.post(write_notification(str(found.get("method")), msgspec.json.encode(params)))

    def _answered(self, event: LogEvent) -> None:
        if self.client.kind.knows_us:
            self.client.peer.post(answered_frame(self.session.id, event))

    def _notify(self, method: str, event: LogEvent) -> None:
        if self.client.kind.knows_us:
            body = {"sessionId": self.session.id, "seq": event.number, **msgspec.json.decode(event.body)}
            self.client.peer.post(write_notification(method, msgspec.json.encode(body)))


class TerminalView:
    """Tool calls with terminals, as one client is sent them.

    The client that runs a terminal gets it under the id that it knows. One that announced `_meta.terminal_output`
    gets the output of foreign terminals in that form. Every other client gets the output so far as text, at most
    twice a second, at the end, and before a turn ends; an editor may refuse a whole tool call that shows a terminal it
    does not have.
    """

    def __init__(self, attachment: Attachment) -> None:
        self._to = attachment
        self._session = attachment.session
        self._announced: set[str] = set()
        self._sent_at: dict[str, float] = {}
        self._later: dict[str, tuple[asyncio.TimerHandle, LogEvent]] = {}

    def update(self, update: bytes, meta: dict[str, Any], event: LogEvent) -> None:
        """Show a tool call that shows a terminal, or reports output of one."""
        found: dict[str, Any] = msgspec.json.decode(update)
        shown = terminals_in(found.get("content"))
        reported = reported_output(found)
        if self._to.client.kind.terminal_output:
            self._announce(found, shown)
            self._to.send_own(found, meta, event)
        elif self._owned().keys() >= set(shown) and shown:
            self._to.send_own({**found, "content": renamed(found["content"], self._owned())}, meta, event)
        else:
            self._as_text(found, reported, meta, event)

    def output(self, event: LogEvent) -> None:
        """Show output of a terminal that the host, or the client it delegates to, runs."""
        output = logged_output(event.body)
        if self._to.takes_events or output.terminal in self._owned() or not (output.text or output.is_over):
            return
        if output.terminal not in self._announced:
            self._refresh(output.terminal, event, is_over=output.is_over)
            return
        for call, _ in self._session.shown.calls_of(output.terminal):
            self._in_meta(call, output, event)

    def flush(self) -> None:
        """Send what waits for its time: the turn is over, and its client need not look at anything behind its end."""
        for terminal, (_, event) in list(self._later.items()):
            self._refresh(terminal, event, is_over=True)

    def close(self) -> None:
        for timer, _ in self._later.values():
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

    def _in_meta(self, call: str, output: TerminalPiece, event: LogEvent) -> None:
        meta: dict[str, Any] = {}
        if output.text:
            meta["terminal_output"] = {"terminal_id": output.terminal, "data": output.text}
        if output.is_over:
            ended = {"exit_code": output.exit_code, "signal": output.signal}
            meta["terminal_exit"] = {"terminal_id": output.terminal, **ended}
        update = {"sessionUpdate": "tool_call_update", "toolCallId": call, "_meta": meta}
        self._to.send_own(update, {}, event)

    def _as_text(
        self, update: dict[str, Any], reported: TerminalPiece | None, meta: dict[str, Any], event: LogEvent
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
            self._to.send_own(update, meta, event)
        if reported is not None:
            self._refresh(reported.terminal, event, is_over=reported.is_over)

    def _refresh(self, terminal: str, event: LogEvent, *, is_over: bool = False) -> None:
        """Send the output so far again, now or when the last time is long enough ago."""
        wait = self._sent_at.get(terminal, 0.0) + LOOK_SECONDS - monotonic()
        waiting = self._later.pop(terminal, None)
        if waiting is not None:
            waiting[0].cancel()
        if wait > 0 and not is_over:
            loop = asyncio.get_running_loop()
            self._later[terminal] = loop.call_later(wait, self._refresh, terminal, event), event
            return
        self._sent_at[terminal] = monotonic()
        for call, content in self._session.shown.calls_of(terminal):
            update = {
                "sessionUpdate": "tool_call_update",
                "toolCallId": call,
                "content": self._session.shown.as_text(content),
            }
            self._to.send_own(update, {}, event)

"""The progress of a turn, for people: on stderr, line by line, readable in a log as well as on a terminal.

Owns which updates get a line and how it looks. Receives updates and the state they were folded into; the state may be
ahead of the update, so each item is shown once, in its latest form. Never raises for what a peer sends. Only the status
line moves the cursor.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from dragoman.cli.prompt import content, tools
from dragoman.cli.prompt.status_line import StatusLine
from dragoman.cli.prompt.stream import LineStream
from dragoman.cli.prompt.subject import subject
from dragoman.cli.prompt.tools import ToolLines
from dragoman.schema import Unknown, v1
from dragoman.state.reported_exit import own_terminal_end, own_terminal_output
from dragoman.text.colour import BOLD, CYAN, DIM, GREEN, RED, YELLOW, Painter
from dragoman.text.output_lines import OutputLines
from dragoman.text.secrets import SplitMask, known_keys
from dragoman.text.terminal import clip, duration, one_line, plain, size
from dragoman.text.visible import label

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TextIO

    from dragoman.client.terminals import Look
    from dragoman.policy.decide import Decision
    from dragoman.state import SessionState

_LOG_WIDTH: Final = 160  # columns where there is no screen
_LIVE_LINES: Final = 200  # of one command; then only its last lines when it ends, unless `--verbose`
_LAST_LINES: Final = 20
_PLAN_MARKS: Final = {"completed": "✓", "in_progress": "›", "pending": "·"}
_DECISIONS: Final = {"allow": ("allowed", DIM), "deny": ("denied", YELLOW)}
_SEVERITIES: Final = {"info": CYAN, "warning": YELLOW, "error": RED}


class Progress:
    """The progress of a turn, written to one stream."""

    def __init__(
        self,
        stream: TextIO,
        colour: bool,
        verbose: bool,
        *,
        root: str = "",
        shows_text: bool = True,
        look: Callable[[str], Look | None] | None = None,
        has_status: bool = False,
    ) -> None:
        """Create the progress of one turn.

        Args:
            root: Paths below this folder are shown relative to it.
            shows_text: Whether the agent's answer is shown here as well.
            look: Returns how a terminal of ours ended, if `terminal_exit` is not called.
            has_status: Whether there is a status line below everything else; the stream is a terminal then.
        """
        self.is_verbose = verbose
        self.root = root
        self.width = _width(stream)
        self.paint = Painter(colour)
        self.look = look
        self.is_held = False
        self._lines = LineStream(stream, StatusLine(self.paint, lambda: _width(stream)) if has_status else None)
        self._shows_text = shows_text
        self._tools = ToolLines(self)
        self._thought = ""
        self._thought_is_shown = False
        self._plan: tuple[tuple[str, str], ...] = ()
        self._running: dict[str, _Running] = {}
        self._subagent_line = ""
        self._decided: tuple[int, set[object]] = (0, set())  # the decisions that the last lines show

    @property
    def last_writer(self) -> str:
        """The writer of the last line; a tool call's key as long as its line is the last one."""
        return self._lines.writer

    def update(self, update: v1.SessionUpdate, state: SessionState) -> None:
        """Show an update that was folded into `state`."""
        if type(update) is not v1.AgentThoughtChunk:
            self._end_thought()
        step = _STEPS.get(type(update)) or _step_of_version2(update)
        if step is not None:
            if type(update) not in _TEXTS:
                self._lines.settle()
            step(self, update, state)

    def terminal_output(self, terminal_id: str, data: bytes) -> None:
        """Show the output of a command as it arrives."""
        self._end_thought()
        running = self._running.get(terminal_id)
        if running is None:
            running = self._running[terminal_id] = _Running(self.paint.has_colour)
        self._show_output(terminal_id, running, running.lines.feed(running.mask.feed(data)))

    def terminal_exit(self, terminal_id: str, exit_code: int | None, signal: str | None = None) -> None:
        """Show how a command ended, if it failed; also for tool calls that show this terminal."""
        self.finish_output(terminal_id)
        self._tools.exits[terminal_id] = (exit_code, signal)
        ending = tools.describe_exit(exit_code, signal)
        if ending:
            self._rail(terminal_id, self.paint(ending, RED))

    def has_output(self, terminal_id: str) -> bool:
        """Whether output of a running command is shown."""
        return terminal_id in self._running

    def finish_output(self, terminal_id: str) -> None:
        """Show the rest of a command's output: an unfinished line, and the last lines of a long output."""
        running = self._running.get(terminal_id)
        if running is None:
            return
        rest = running.lines.feed(running.mask.finish())
        self._show_output(terminal_id, running, [*rest, *running.lines.finish()])
        if running.hidden > len(running.last):
            self._rail(terminal_id, self.paint(f"… {running.hidden - len(running.last)} lines not shown", DIM))
        for line in running.last:
            self._rail(terminal_id, line)
        del self._running[terminal_id]

    def decision(self, decision: Decision) -> None:
        """Show a decision on a permission request; the user's own only with `--verbose`."""
        if decision.decided_by == "person" and not self.is_verbose:
            return
        self._end_thought()
        word, style = _DECISIONS.get(decision.action, ("cancelled", RED))
        # An agent that asks, and then writes or runs a command through the client, is judged twice for one thing.
        from dragoman.policy import Command

        line = decision.command
        what_for = decision.paths or decision.title if line is None else Command(line=line).runs
        same = (decision.action, decision.kind, what_for, decision.decided_by)
        count, shown = self._decided
        if count != self._lines.count:
            shown = set()
        if same in shown:
            return
        what = f"{label(decision.kind, 20)}: {label(subject(decision, self.root), self.width)}"
        self.line(f"{self.paint(word, style)} {what} {self.paint(f'({label(decision.decided_by, self.width)})', DIM)}")
        self._decided = (self._lines.count, shown | {same})

    def note(self, text: str, style: str = DIM) -> None:
        """Show a line of our own."""
        self._end_thought()
        self.line(self.paint(one_line(text), style))

    def end(self, stop_reason: str | None, state: SessionState | None = None, *, seconds: float | None = None) -> None:
        """Show the end of the turn in one line: why it stopped, what it did, how much it used."""
        self._end_thought()
        for terminal_id in list(self._running):
            self.finish_output(terminal_id)
        style = GREEN if stop_reason == "end_turn" else RED if stop_reason is None else YELLOW
        parts = [self.paint(label(stop_reason or "interrupted", 40), style)]
        if state is not None:
            parts += _figures(state)
        if seconds is not None:
            parts.append(duration(seconds))
        self._lines.settle()
        self.line(" · ".join(parts))

    def hold(self) -> None:
        """Write nothing until `release`, while the user is asked."""
        self._end_thought()
        self.is_held = True
        self._lines.hold()

    def release(self) -> None:
        """Write what arrived in the meantime."""
        self.is_held = False
        self._lines.release()

    @property
    def count(self) -> int:
        """How often something was written, the status line excepted."""
        return self._lines.count

    def show_status(self, text: str) -> None:
        """Show the status line with this text, which is safe to show; an empty text removes the line."""
        self._lines.show_status(text)

    def log(self, text: str) -> None:
        """Show what the agent writes to its own log; it may do so in the middle of a thought."""
        self._lines.write("log", plain(text))

    def note_shown(self, diffs: Sequence[v1.Diff]) -> None:
        """Note that the user has seen these changes in a question; they are not shown a second time."""
        self._tools.note_shown(diffs)

    def begin_details(self, title: str) -> None:
        """Begin the lines that belong to a finished tool call; here nothing is to be done."""

    def end_details(self) -> None:
        """End them; here nothing is to be done."""

    def line(self, text: str, writer: str = "") -> None:
        """Write a line that is safe to show."""
        self._lines.line(text, writer)

    def short(self, path: str) -> str:
        """Return a path as it is shown: relative to the root, if it is below."""
        below = self.root.rstrip("/") + "/"
        return label(path.removeprefix(below) if self.root and path.startswith(below) else path, self.width)

    def _show_message(self, update: v1.AgentMessageChunk, state: SessionState) -> None:
        message_id = update.message_id if isinstance(update.message_id, str) else ""
        self.write_message(message_id, content.text_of(update.content))

    def write_message(self, message_id: str, text: str) -> None:
        """Write text of the agent; that of another message begins a new line."""
        if self._shows_text:
            self._lines.write(f"message {message_id}", text)

    def _show_user(self, update: v1.UserMessageChunk, state: SessionState) -> None:
        if self.is_verbose:
            style = f"\x1b[{BOLD}m" if self.paint.has_colour else ""
            self._lines.write("user", content.text_of(update.content), "> ", style)

    def _show_thought(self, update: v1.AgentThoughtChunk, state: SessionState) -> None:
        text = content.text_of(update.content)
        if self.is_verbose:
            self._lines.write("thought", text, "~ ", f"\x1b[{DIM}m" if self.paint.has_colour else "")
        elif not self._thought_is_shown:
            self._thought = (self._thought + text)[:2000].lstrip()
            if "\n" in self._thought:
                self._show_first_line()

    def _show_first_line(self) -> None:
        thought, newline, _ = self._thought.partition("\n")
        self._thought = ""
        self._thought_is_shown = True
        if not newline:  # it may stop in the middle of a key
            mask = SplitMask(known_keys)
            thought = mask.feed_text(thought)
            thought += mask.show_some().decode(errors="replace") or ("…" if mask.has_rest else "")
        self.line(self.paint("~ " + label(thought, self.width - 2), DIM))

    def _end_thought(self) -> None:
        if self._thought.strip():
            self._show_first_line()
        self._thought = ""
        self._thought_is_shown = False

    def _show_tool(self, update: v1.ToolCall | v1.ToolCallUpdate, state: SessionState) -> None:
        call = state.tool_calls.get(update.tool_call_id)
        if call is not None and call.is_running:
            self._tools.show(call)
        self._show_own_terminal(update.meta)
        if call is not None and not call.is_running:
            self._tools.show(call)

    def _show_own_terminal(self, meta: Any) -> None:
        """Show the output of a command that the agent runs itself, in the form several real agents send."""
        output, ending = own_terminal_output(meta), own_terminal_end(meta)
        if output is not None:
            self.terminal_output(output[0], output[1].encode(errors="replace"))
        if ending is not None:
            self.terminal_exit(*ending)

    def _show_plan(self, update: v1.Plan, state: SessionState) -> None:
        self._show_entries(update.entries)

    def _show_plan_update(self, update: v1.PlanUpdate, state: SessionState) -> None:
        match update.plan:
            case v1.PlanItems(entries=entries):
                self._show_entries(entries)
            case v1.PlanFile(uri=uri):
                self.line(f"{self.paint('plan', BOLD)} {label(uri, self.width)}")
            case v1.PlanMarkdown(content=text):
                self.line(self.paint("plan", BOLD))
                self._lines.write("plan", plain(text), "  ")

    def _show_entries(self, entries: Sequence[v1.PlanEntry]) -> None:
        """Show all steps of a new plan, then only those whose status changed."""
        steps = tuple((entry.content, entry.status) for entry in entries)
        if steps == self._plan:
            return
        before, self._plan = self._plan, steps
        is_known = [text for text, _ in before] == [text for text, _ in steps]
        done = sum(status == "completed" for _, status in steps)
        self.line(f"{self.paint('plan', BOLD)} {done}/{len(steps)}")
        for number, (text, status) in enumerate(steps):
            if not is_known or before[number][1] != status:
                style = {"completed": DIM, "in_progress": CYAN}.get(status, "")
                entry = f"  {_PLAN_MARKS.get(status, '·')} {label(text, self.width - 4)}"
                self.line(self.paint(entry, style) if style else entry)

    def _show_mode(self, update: v1.CurrentModeUpdate, state: SessionState) -> None:
        self.line(self.paint(f"mode: {label(update.current_mode_id, 60)}", DIM))

    def _show_notice(self, update: v1.Notice, state: SessionState) -> None:
        word = label(update.severity, 20)
        text = label(update.title, self.width)
        self.line(f"{self.paint(word + ':', _SEVERITIES.get(update.severity, CYAN))} {text}")
        if isinstance(update.description, str) and update.description:
            self._lines.write("notice", plain(update.description), "  ")

    def _show_compaction(self, update: v1.CompactionUpdate, state: SessionState) -> None:
        error = f": {label(update.error, self.width)}" if isinstance(update.error, str) else ""
        line = f"compaction of the context: {label(update.status, 20)}{error}"
        self.line(self.paint(line, RED if error else DIM))

    def _show_subagent(self, update: v1.SubagentUpdate, state: SessionState) -> None:
        child = state.subagents.get(update.session_id)
        title = child.title if child is not None and child.title else update.session_id
        doing = "" if child is None or child.state is None else f": {label(_state_word(child.state), 20)}"
        line = f"subagent {label(title, self.width)}{doing}"
        if line != self._subagent_line:
            self._subagent_line = line
            self.line(self.paint(line, DIM))

    def _show_detail(self, update: v1.SessionUpdate, state: SessionState) -> None:
        """Show updates that get a line only with `--verbose`."""
        if not self.is_verbose:
            return
        match update:
            case v1.SessionInfoUpdate(title=str(title)):
                self.line(self.paint(f"title: {label(title, self.width)}", DIM))
            case v1.AvailableCommandsUpdate(available_commands=commands):
                names = ", ".join("/" + label(command.name, 40) for command in commands)
                self.line(self.paint(clip(f"commands: {names}", self.width), DIM))
            case v1.UsageUpdate(used=used, size=total):
                self.line(self.paint(f"context: {size(used)} of {size(total)} tokens", DIM))
            case Unknown(tag=tag):
                self.line(self.paint(f"unknown update: {label(tag or '', 60, '(unknown)')}", DIM))

    def _show_output(self, terminal_id: str, running: _Running, lines: list[str]) -> None:
        for line in lines:
            if self.is_verbose or running.shown < _LIVE_LINES:
                running.shown += 1
                self._rail(terminal_id, line)
            else:
                running.hidden += 1
                running.last = [*running.last[-_LAST_LINES + 1 :], line]

    def _rail(self, terminal_id: str, line: str) -> None:
        """Show a line of a command's output behind a vertical bar, with its terminal if several commands run."""
        writer = f"terminal {terminal_id}"
        if len(self._running) > 1 and self.last_writer != writer:
            self.line(self.paint(f"│ terminal {label(terminal_id, 40)}:", DIM))
        self.line(self.paint("│ ", DIM) + line, writer)


class _Running:
    """A running command and its output so far."""

    __slots__ = ("hidden", "last", "lines", "mask", "shown")

    def __init__(self, has_colour: bool) -> None:
        self.lines = OutputLines(has_colour)
        self.mask = SplitMask(known_keys)
        self.shown = 0
        self.hidden = 0
        self.last: list[str] = []


def _width(stream: TextIO) -> int:
    try:
        return max(40, (os.get_terminal_size(stream.fileno()).columns or 80) - 1)  # 0: it does not state its size
    except (OSError, ValueError, AttributeError):
        return _LOG_WIDTH


def _state_word(state: v1.StateUpdate) -> str:
    if isinstance(state, v1.IdleStateUpdate):
        return state.stop_reason if isinstance(state.stop_reason, str) else "idle"
    if isinstance(state, Unknown):
        return state.tag or ""
    return {v1.RunningStateUpdate: "running", v1.RequiresActionStateUpdate: "waiting for an answer"}.get(
        type(state), ""
    )


def _figures(state: SessionState) -> list[str]:
    """Describe the tool calls and usage of the last turn."""
    turn = state.turns[-1] if state.turns else None
    calls = [call for call in state.tool_calls.values() if turn is not None and call.turn == turn.index]
    parts = [f"{len(calls)} tool call{'s' * (len(calls) != 1)}"] if calls else []
    if turn is not None and turn.usage is not None:
        parts.append(f"{size(turn.usage.input_tokens)} in, {size(turn.usage.output_tokens)} out")
    if state.usage is not None and state.usage.size:
        parts.append(f"context {size(state.usage.used)} of {size(state.usage.size)}")
    if state.cost is not None and f"{state.cost.amount:.4g}" != "0":
        parts.append(f"{state.cost.amount:.4g} {label(state.cost.currency, 8)}")
    return parts


def _step_of_version2(update: object) -> Callable[[Progress, Any, SessionState], None] | None:
    if not type(update).__module__.startswith("dragoman.schema.v2."):
        return None
    from dragoman.cli.prompt.version2 import STEPS

    return STEPS.get(type(update))


_TEXTS: Final = (v1.AgentMessageChunk, v1.AgentThoughtChunk, v1.UserMessageChunk)

_STEPS: Final[dict[type, Callable[[Progress, Any, SessionState], None]]] = {
    v1.AgentMessageChunk: Progress._show_message,
    v1.AgentThoughtChunk: Progress._show_thought,
    v1.UserMessageChunk: Progress._show_user,
    v1.ToolCall: Progress._show_tool,
    v1.ToolCallUpdate: Progress._show_tool,
    v1.Plan: Progress._show_plan,
    v1.PlanUpdate: Progress._show_plan_update,
    v1.CurrentModeUpdate: Progress._show_mode,
    v1.Notice: Progress._show_notice,
    v1.CompactionUpdate: Progress._show_compaction,
    v1.SubagentUpdate: Progress._show_subagent,
    v1.SessionInfoUpdate: Progress._show_detail,
    v1.AvailableCommandsUpdate: Progress._show_detail,
    v1.UsageUpdate: Progress._show_detail,
    Unknown: Progress._show_detail,
}

"""The status line of the live region, in words. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.text.terminal import clip, duration
from dragoman.text.visible import label
from dragoman.tui.question_lines import answers_of
from dragoman.tui.screen.header import HeaderFacts, current_mode, current_model, usage_words
from dragoman.tui.values import short_agent

if TYPE_CHECKING:
    from dragoman.tui.conversation import HostedConversation
    from dragoman.tui.values import AskedQuestion
    from dragoman.view.rails import Glyphs, RailLine

LIVE_LINES: Final = 6
INPUT_LINES: Final = 4


def status_line(talk: HostedConversation, glyphs: Glyphs, width: int, *, is_answering: bool, hint: str) -> RailLine:
    """Return what the user should know now: one line, narrower than the terminal, so that a resize keeps it."""
    text, style = _status(talk, glyphs, is_answering=is_answering)
    if hint:
        text, style = f"{glyphs.note} {hint}", "warn"
    return ((clip(text, max(1, width - 1)), style),)


def _status(talk: HostedConversation, glyphs: Glyphs, *, is_answering: bool) -> tuple[str, str]:
    dot = f" {glyphs.dot} "
    question = talk.questions[0] if talk.questions else None
    if question is not None:
        return f"{glyphs.needs_you} {_asked(question, is_answering=is_answering)}", "warn"
    if talk.phase == "failed":
        return f"{glyphs.failed} failed{dot}/retry, or choose above", "bad"
    if talk.phase != "ready":
        return f"{glyphs.offline} {'looking for the host' if talk.phase == 'lost' else talk.phase}", "dim"
    waiting = len(talk.queued)
    if talk.is_running:
        started = talk.started_at
        time = "" if started is None else f" {duration(int(talk.clock() - started))}"
        parts = [f"{glyphs.running} working{time}", *_step(talk), *([f"{waiting} queued"] if waiting else [])]
        return dot.join([*parts, "Esc stops"]), "warn"
    facts = HeaderFacts(talk.folder, talk.agent, has_unicode=not glyphs.cut.isascii())
    agent = label(short_agent(talk.agent), 20, "")
    parts = [agent, current_model(talk.state), current_mode(talk.state), *usage_words(talk.state, facts, 0)]
    return dot.join([*(part for part in parts if part), "Enter send", "/help", "Ctrl+D leave"]), "dim"


def _asked(question: AskedQuestion, *, is_answering: bool) -> str:
    clear = [str(answer.number) for answer in answers_of(question.request) if answer.is_clear and answer.number < 10]
    numbers = f"{clear[0]}-{clear[-1]}" if len(clear) > 1 else "".join(clear)
    if is_answering:
        return f"type the number of an answer, {numbers}; Esc goes back to the input"
    return f"needs your answer: Tab, then {numbers}; or Alt+number; Esc stops the turn"


def _step(talk: HostedConversation) -> list[str]:
    plan = talk.state.plan
    if not plan:
        return []
    done = sum(entry.status == "completed" for entry in plan)
    current = next((entry.content for entry in plan if entry.status == "in_progress"), "")
    return [f"step {min(done + 1, len(plan))} of {len(plan)}{f': {label(current, 40)}' if current else ''}"]

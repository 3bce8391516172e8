"""The shortening of a conversation: outputs of old calls are left out, and its head is replaced by a summary.

Owns the order of the attempts, their checks and the storing of the result. When to shorten is decided in `window.py`,
what to keep in `plan.py`. Until the result is stored nothing has changed.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
from msgspec import Struct

from dragoman.builtin.context.history import ModelConversation, output_text
from dragoman.builtin.context.window.facts import COMPACTION, PRUNING, Compaction, Cut, Notes, Pruning
from dragoman.builtin.context.window.limits import ADVICE
from dragoman.builtin.context.window.notes import fit_notes, fixed_block, notes_of
from dragoman.builtin.context.window.plan import plan_of, prunable
from dragoman.builtin.context.window.summariser import Summariser, Summary
from dragoman.builtin.context.window.summary import INTRODUCTION, mechanical, message_text
from dragoman.builtin.models.model import ModelError
from dragoman.builtin.tools.jobs import job_lines
from dragoman.builtin.tools.long_output import keep_output
from dragoman.builtin.tools.shell_folder import moved_line
from dragoman.store.ids import new_id
from dragoman.uistream import chunks as c
from dragoman.uistream.messages import DataPart, ToolPart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.builtin.context.history import ModelView
    from dragoman.builtin.context.window.limits import WindowLimits
    from dragoman.builtin.context.window.plan import Plan
    from dragoman.builtin.context.window.window import ContextWindow
    from dragoman.builtin.models.model import StepEnd
    from dragoman.builtin.turn import TurnContext
    from dragoman.builtin.waits import Retries
    from dragoman.uistream.messages import Part

    Fact: TypeAlias = Pruning | Compaction

_log = logging.getLogger("dragoman.builtin")


_LEAST_HEAD: Final = 500


class Shortened(Struct, frozen=True):
    """The result of a compaction: tokens before and after, who made the summary, and the facts to store."""

    before: int
    after: int
    made_by: str
    facts: tuple[Pruning | Compaction, ...] = ()


class Compactor:
    """The shortening of the conversation of one turn."""

    def __init__(self, context: TurnContext, window: ContextWindow, retries: Retries) -> None:
        self._context = context
        self._window = window
        self._retries = retries
        self.calls: list[StepEnd] = []
        """The model calls that summaries took and that were not counted yet."""

    # Pruning

    async def prune(self, limits: WindowLimits) -> bool:
        """Leave out outputs of old calls. Returns whether there were enough of them."""
        view = self._window.view
        calls, saved = prunable(view, limits)
        if not calls:
            return False
        paths = await self._kept(calls, view)
        cuts = {call.tool_call_id: Cut(0, path) for call, path in zip(calls, paths, strict=True)}
        await self._store(Pruning(cuts))
        _log.info("outputs of %d calls were left out, about %d tokens", len(calls), saved)
        return True

    async def _kept(self, calls: Sequence[ToolPart], view: ModelView) -> list[str | None]:
        """Return the path of a file with the whole output of each call; None for one that cannot be written."""
        stored = _stored_calls(view)
        # All in one thread: a session of days has thousands.
        return await asyncio.to_thread(lambda: [self._keep(stored[id(call)]) for call in calls])

    def _keep(self, call: ToolPart) -> str | None:
        if isinstance(call.output, dict) and isinstance(call.output.get("output_path"), str):
            path: str = call.output["output_path"]
            return path
        try:
            return keep_output(
                output_text(call).encode("utf-8", "replace"), self._context.overflow_dir, call.tool_call_id
            )
        except OSError as error:
            _log.warning("an output could not be kept: %s", error)
            return None

    # Compaction

    async def compact(
        self, focus: str, tail_tokens: int | None, *, is_needed: bool, by_model: bool
    ) -> Shortened | None:
        """Replace the head of the conversation by a summary. Returns None if there is nothing to replace.

        Args:
            focus: what the user wants the summary to keep.
            tail_tokens: how much of the end to keep instead of the usual.
            is_needed: the conversation must become shorter, whatever the estimate says.
            by_model: the model writes the summary. Otherwise it is made without, as an earlier one did not help.

        Raises: ModelError when it does not fit however it is shortened.
        """
        id, before = new_id("prt"), self._window.estimate()
        if self._is_hopeless() or (not is_needed and before <= self._window.limits.limit and not self._is_worthwhile()):
            return None
        await self._show({"id": id, "status": "in_progress", "tokens_before": before})
        try:
            done = await self._shorten(id, before, focus, tail_tokens, is_needed=is_needed, by_model=by_model)
        except ModelError as error:
            await self._show({"id": id, "status": "failed", "error": str(error)})
            raise
        if done is None:
            await self._show({"id": id, "status": "failed", "error": "there is nothing to shorten"})
            return None
        for fact in done.facts:
            await self._store(fact)
        if not any(isinstance(fact, Compaction) for fact in done.facts):
            # Nothing was summarised: only long outputs or messages were cut.
            await self._show({"id": id, "status": "completed", "tokens_before": before, "tokens_after": done.after})
        _log.info("the conversation was shortened from %d to %d tokens (%s)", before, done.after, done.made_by)
        return done

    def _is_hopeless(self) -> bool:
        """Whether the system prompt and the tools alone are too large: no shorter conversation helps then."""
        return self._window.goal >= self._window.limits.limit

    def _is_worthwhile(self) -> bool:
        """Whether there is enough before the tail; a summary has some hundred tokens."""
        window = self._window
        plan = plan_of(window.view, window.limits, window.overhead, len(self._context.history))
        return sum(unit.tokens for unit in plan.head) >= _LEAST_HEAD

    async def _show(self, state: dict[str, str | int]) -> None:
        await self._context.emit(c.Data(COMPACTION, state, str(state["id"]), transient=True))

    async def _store(self, fact: Fact) -> None:
        """Store a fact: one chunk, so that it is stored whole or not at all."""
        name, id = (COMPACTION, fact.id) if isinstance(fact, Compaction) else (PRUNING, new_id("prt"))
        await self._context.emit(c.Data(name, msgspec.to_builtins(fact), id))

    async def _shorten(
        self, id: str, before: int, focus: str, tail_tokens: int | None, *, is_needed: bool, by_model: bool
    ) -> Shortened | None:
        window = self._window
        limits, view, carrier = window.limits, window.view, len(self._context.history)
        goal, smallest = window.goal, 0
        # Each round keeps less: the usual tail, a quarter of it, only the user's last message.
        for number, tail in enumerate((tail_tokens, limits.tail // 4, 0)):
            plan = plan_of(view, limits, window.overhead, carrier, tail_tokens=tail)
            if not plan.head and plan.cuts is None:
                continue
            summary = await self._summary(plan, view, limits, focus, by_model=by_model and number == 0)
            facts = await self._facts(id, before, plan, view, limits, summary)
            after = window.estimate(self._with(facts))
            for fact in facts:
                if isinstance(fact, Compaction):
                    fact.tokens_after = after
            if after < before and (after <= goal or (tail == 0 and after <= limits.limit)):
                made_by = "cut" if summary is None else summary.made_by
                return Shortened(before, after, made_by, tuple(facts))
            smallest = min(smallest or after, after)
            if not is_needed and before <= limits.limit:
                return None  # asked for by the user, and not worth more than this
            _log.info("about %d tokens are left after shortening, at most %d are useful", after, goal)
        if not smallest:
            return None
        raise ModelError(
            f"the conversation needs about {smallest:,} tokens even when it is shortened, but the context window of "
            f"{self._context.model.name} has {limits.window:,}, of which {limits.limit:,} are for the conversation; "
            f"{ADVICE}"
        )

    async def _summary(
        self, plan: Plan, view: ModelView, limits: WindowLimits, focus: str, *, by_model: bool
    ) -> Summary | None:
        if not plan.head:
            return None
        before = "" if view.compaction is None else _text_of(view.compaction)
        if by_model:
            return await Summariser(self._context, self._retries, limits, self.calls, focus).summarise(
                plan.head, before
            )
        return Summary(mechanical(plan.head, before, limits.summary), "dropped")

    async def _facts(
        self, id: str, before: int, plan: Plan, view: ModelView, limits: WindowLimits, summary: Summary | None
    ) -> list[Fact]:
        """Return the facts that shorten the conversation as planned."""
        facts: list[Fact] = []
        carrier = len(self._context.history)
        if plan.cuts is not None:
            calls = {part.tool_call_id: part for unit in plan.tail for part in unit.parts if isinstance(part, ToolPart)}
            cut_calls = [calls[call_id] for call_id in plan.cuts.calls]
            for cut, path in zip(plan.cuts.calls.values(), await self._kept(cut_calls, view), strict=True):
                cut.path = path
            facts.append(plan.cuts)
        if summary is not None:
            known = Notes() if view.compaction is None else view.compaction.notes
            memory = self._context.memory
            notes = notes_of(
                plan.head, known, memory.get("todo") or (), [*moved_line(self._context), *job_lines(memory)]
            )
            notes = fit_notes(notes, max(limits.summary, 300))
            user = None if plan.user is None else carrier - plan.user.index
            place = plan.place(carrier, len(self._context.message.parts))
            text = message_text(summary.text, notes)
            facts.append(Compaction(id, text, place, user, before, 0, summary.made_by, notes))
        return facts

    def _with(self, facts: Sequence[Fact]) -> ModelView:
        """Return the conversation as it would be with these facts."""
        parts: list[Part] = [
            DataPart(COMPACTION if isinstance(fact, Compaction) else PRUNING, msgspec.to_builtins(fact))
            for fact in facts
        ]
        running = self._context.message
        shadow = msgspec.structs.replace(running, parts=[*running.parts, *parts])
        return ModelConversation(self._context.history).view(shadow)


def _stored_calls(view: ModelView) -> dict[int, ToolPart]:
    """Return the stored calls by the ids of the objects that the model is given.

    The outputs of these objects may have been cut before.
    """
    stored: dict[int, ToolPart] = {}
    for entry in view.entries:
        for given, part in zip(entry.message.parts, entry.source.parts[entry.start :], strict=False):
            if isinstance(part, ToolPart):
                stored[id(given)] = part
    return stored


def _text_of(compaction: Compaction) -> str:
    """Return the part of an earlier summary that a model wrote."""
    block = fixed_block(compaction.notes)
    text = compaction.summary.removeprefix(INTRODUCTION)
    return (text.removesuffix(block) if block else text).strip()

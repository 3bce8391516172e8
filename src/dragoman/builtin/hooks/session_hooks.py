"""The hooks of a session: which of them a moment concerns, what they are sent, and what their answers mean together.

Hooks of one moment run at the same time, each with its own time limit. The strictest answer counts: a refusal before a
question before a permission. A hook of a project that the user accepted can only be stricter: its permission and its
changed arguments are left out.
"""

from __future__ import annotations

import asyncio
import logging
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from dragoman.builtin.hooks.answer import HookAnswer, read_answer
from dragoman.builtin.tools.foreign_names import foreign_arguments, foreign_name
from dragoman.errors import DragomanError
from dragoman.text.terminal import shorten

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from dragoman.builtin.hooks.answer import Wish
    from dragoman.settings.file import Owner
    from dragoman.settings.hooks import Hook, Moment

_log = logging.getLogger("dragoman.builtin")
_ORDER: Final[tuple[Wish, ...]] = ("deny", "ask", "allow", "")
_MOST_STOPS: Final = 3
"""How often a hook can make one turn go on. A hook that is never content would go on forever."""


class HookResult(Struct, frozen=True):
    """What the hooks of one moment want, taken together."""

    wish: Wish = ""
    reason: str = ""
    context: str = ""
    new_input: Mapping[str, Any] | None = None
    new_output: str | None = None
    ends_turn: bool = False


NOTHING: Final = HookResult()


class SessionHooks:
    """The hooks that run in one session.

    Args:
        hooks: each with the owner of the file it is in.
        facts: what every hook is sent about the session, as it is now.
        notify: shows the user a title and a description.
        env: the environment of the commands.
    """

    def __init__(
        self,
        hooks: Sequence[tuple[Hook, Owner]],
        cwd: str,
        facts: Callable[[], dict[str, Any]],
        notify: Callable[[str, str], Awaitable[None]],
        env: Mapping[str, str],
    ) -> None:
        self._hooks = tuple(hooks)
        self._cwd = cwd
        self._facts = facts
        self._notify = notify
        self._env = env
        self._stops = 0
        self._background: set[asyncio.Task[HookResult]] = set()

    def begin_turn(self) -> None:
        """A turn begins: hooks may make it go on some times."""
        self._stops = 0

    async def close(self) -> None:
        """End the hooks about notifications that still run."""
        for task in self._background:
            task.cancel()
        if self._background:
            await asyncio.wait(self._background)

    # Moments

    async def before_tool(self, tool: str, arguments: dict[str, Any], call_id: str) -> HookResult:
        """A tool call is about to be judged. A hook that fails wants the user to be asked."""
        facts = {"tool_use_id": call_id}
        return await self._run("before_tool", tool, arguments, facts, fails_closed=True)

    async def after_tool(
        self, tool: str, arguments: dict[str, Any], call_id: str, output: str, *, seconds: float
    ) -> HookResult:
        """A tool call has worked."""
        facts = {
            "tool_use_id": call_id,
            "tool_response": {"output": output, "is_error": False},
            "duration_ms": round(seconds * 1000),
        }
        return await self._run("after_tool", tool, arguments, facts)

    async def prompt(self, text: str) -> HookResult:
        """The user has sent a prompt, which no model has seen yet."""
        return await self._run("prompt", None, None, {"prompt": text})

    async def stop(self, last_text: str) -> str:
        """A turn is about to end. Returns what the model has to do before; empty if the turn may end."""
        facts = {"stop_hook_active": self._stops > 0, "last_assistant_message": last_text}
        result = await self._run("stop", None, None, facts)
        if result.wish != "deny" or result.ends_turn:
            return ""
        self._stops += 1
        if self._stops > _MOST_STOPS:
            await self._notify(
                "The turn ends although a hook wants it to go on", f"It did {_MOST_STOPS} times already."
            )
            return ""
        return result.reason or "A hook of the user's wants you to go on."

    def notification(self, message: str) -> None:
        """The user is asked something, or a turn has ended. Nothing waits for these hooks."""
        if any(hook.moment == "notification" for hook, _ in self._hooks):
            task = asyncio.create_task(self._run("notification", None, None, {"message": message}))
            self._background.add(task)
            task.add_done_callback(self._background.discard)

    # Running

    async def _run(
        self,
        moment: Moment,
        tool: str | None,
        arguments: dict[str, Any] | None,
        facts: dict[str, Any],
        *,
        fails_closed: bool = False,
    ) -> HookResult:
        concerned = [
            (hook, owner)
            for hook, owner in self._hooks
            if hook.moment == moment and (tool is None or _matches(hook, tool))
        ]
        if not concerned:
            return NOTHING
        answers = await asyncio.gather(*(self._ask(hook, tool, arguments, facts) for hook, _ in concerned))
        kept: list[HookAnswer] = []
        for (hook, owner), answer in zip(concerned, answers, strict=True):
            if answer.failure:
                await self._notify(f"A hook failed ({moment})", f"{shorten(hook.command, 100)}: {answer.failure}")
                kept.append(HookAnswer("ask", f"a hook failed: {answer.failure}") if fails_closed else HookAnswer())
                continue
            if answer.notice:
                await self._notify("Message of a hook", answer.notice)
            kept.append(answer if owner == "user" else _stricter_only(answer))
        return _combined(kept)

    async def _ask(
        self, hook: Hook, tool: str | None, arguments: dict[str, Any] | None, facts: dict[str, Any]
    ) -> HookAnswer:
        from dragoman.process.finished import run_to_end

        sent = {**self._facts(), "hook_event_name": hook.event or hook.moment, **facts}
        if tool is not None and arguments is not None:
            sent["tool_name"] = foreign_name(tool) if hook.is_foreign else tool
            sent["tool_input"] = {**foreign_arguments(tool, arguments), **arguments} if hook.is_foreign else arguments
        try:
            finished = await run_to_end(
                hook.command,
                cwd=self._cwd,
                env=self._env,
                stdin=msgspec.json.encode(sent),
                timeout_seconds=hook.timeout_seconds,
            )
        except (DragomanError, OSError) as error:
            return HookAnswer(failure=f"it could not be started: {error}")
        return read_answer(finished, hook.timeout_seconds)


def _matches(hook: Hook, tool: str) -> bool:
    """Whether a hook concerns a tool, by our name of it or by that of other agents."""
    return not hook.matcher or any(re.fullmatch(hook.matcher, name) for name in (tool, foreign_name(tool)))


def _stricter_only(answer: HookAnswer) -> HookAnswer:
    wish: Wish = "" if answer.wish == "allow" else answer.wish
    return msgspec.structs.replace(answer, wish=wish, new_input=None, new_output=None)


def _combined(answers: Sequence[HookAnswer]) -> HookResult:
    wish = min((answer.wish for answer in answers), key=_ORDER.index)
    changes = [answer for answer in answers if answer.new_input is not None]
    if wish == "allow" and changes and changes[-1].wish != "allow":
        wish = ""  # what a hook permitted is not what will run: another one has changed the arguments
    reasons = [answer.reason for answer in answers if answer.wish == wish and answer.reason]
    outputs = [answer.new_output for answer in answers if answer.new_output is not None]
    return HookResult(
        wish,
        "; ".join(reasons),
        "\n".join(answer.context for answer in answers if answer.context),
        changes[-1].new_input if changes else None,
        outputs[-1] if outputs else None,
        any(answer.ends_turn for answer in answers),
    )

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
from dragoman.builtin.tools.foreign_names import foreign_agent_name, foreign_arguments, foreign_name
from dragoman.errors import DragomanError
from dragoman.text.terminal import shorten

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from dragoman.builtin.hooks.answer import Wish
    from dragoman.settings.file import Owner
    from dragoman.settings.hooks import EditCommand, Hook, Moment

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


class SubagentName(Struct, frozen=True):
    """The id of a subagent's task and the name of the agent."""

    id: str
    name: str


NOTHING: Final = HookResult()


class SessionHooks:
    """The hooks that run in one session.

    Args:
        hooks: each with the owner of the file it is in.
        facts: what every hook is sent about the session, as it is now.
        notify: shows the user a title and a description.
        env: the environment of the commands.
        may_run: whether a hook is still what the user accepted; blocks.
        subagent: the id and the name of the subagent whose run these are for; None for the session's own agent.
        background: the tasks of hooks that nothing waits for; `close` ends them.
    """

    def __init__(
        self,
        hooks: Sequence[tuple[Hook, Owner]],
        cwd: str,
        facts: Callable[[], dict[str, Any]],
        notify: Callable[[str, str], Awaitable[None]],
        env: Mapping[str, str],
        may_run: Callable[[Hook], bool] = lambda hook: True,
        *,
        subagent: SubagentName | None = None,
        background: set[asyncio.Task[HookResult]] | None = None,
    ) -> None:
        self._hooks = tuple(hooks)
        self._cwd = cwd
        self._facts = facts
        self._notify = notify
        self._env = env
        self._may_run = may_run
        self._subagent = subagent
        self._stops = 0
        self._background: set[asyncio.Task[HookResult]] = set() if background is None else background

    def begin_turn(self) -> None:
        """Begin a turn, which hooks may make go on some times."""
        self._stops = 0

    def of_subagent(self, id: str, name: str) -> SessionHooks:
        """Return the same hooks for one run of a subagent: they are sent its name, and may make it go on some times."""
        return SessionHooks(
            *(self._hooks, self._cwd, self._facts, self._notify, self._env, self._may_run),
            subagent=SubagentName(id, name),
            background=self._background,
        )

    async def close(self) -> None:
        """End the hooks about notifications that still run."""
        for task in self._background:
            task.cancel()
        if self._background:
            await asyncio.wait(self._background)

    # Moments

    async def before_tool(self, tool: str, arguments: dict[str, Any], call_id: str) -> HookResult:
        """Run the hooks of a tool call that is about to be judged. A hook that fails wants the user to be asked."""
        facts = {"tool_use_id": call_id}
        return await self._run("before_tool", tool, arguments, facts, fails_closed=True)

    async def after_tool(
        self, tool: str, arguments: dict[str, Any], call_id: str, output: str, *, is_error: bool, seconds: float
    ) -> HookResult:
        """Run the hooks of a tool call that has ended. Of one that failed, the output is the reason."""
        facts: dict[str, Any] = {
            "tool_use_id": call_id,
            "tool_response": {"output": output, "is_error": is_error},
            "duration_ms": round(seconds * 1000),
        }
        if is_error:  # Claude Code's names for the same
            facts |= {"error": output, "is_interrupt": False}
        return await self._run("after_failed_tool" if is_error else "after_tool", tool, arguments, facts)

    async def prompt(self, text: str) -> HookResult:
        """Run the hooks of a prompt that the user has sent, and no model has seen yet."""
        return await self._run("prompt", None, None, {"prompt": text})

    async def stop(self, last_text: str) -> str:
        """Run the hooks of a turn, or of the run of a subagent, that is about to end.

        Returns what the model has to do before; empty if it may end.
        """
        facts = {"stop_hook_active": self._stops > 0, "last_assistant_message": last_text}
        result = await self._run("stop" if self._subagent is None else "subagent_stop", None, None, facts)
        if result.wish != "deny" or result.ends_turn:
            return ""
        self._stops += 1
        if self._stops > _MOST_STOPS:
            what = "turn" if self._subagent is None else f"subagent {self._subagent.name}"
            await self._notify(
                f"The {what} ends although a hook wants it to go on", f"It did {_MOST_STOPS} times already."
            )
            return ""
        return result.reason or "A hook of the user's wants you to go on."

    async def subagent_start(self, prompt: str) -> HookResult:
        """Run the hooks of a subagent that is about to begin with a task."""
        return await self._run("subagent_start", None, None, {"prompt": prompt})

    def notification(self, message: str) -> None:
        """Start the hooks of a notification: the user is asked something, or a turn has ended.

        Nothing waits for these hooks.
        """
        if any(hook.is_for("notification") for hook, _ in self._hooks):
            task = asyncio.create_task(self._run("notification", None, None, {"message": message}))
            self._background.add(task)
            task.add_done_callback(self._background.discard)

    # Running

    def _names(self, moment: Moment, tool: str | None) -> tuple[str, ...]:
        """Return what matchers are compared with.

        These are the name of the tool or the subagent, ours and that of other agents.
        """
        if tool is not None:
            return tool, foreign_name(tool)
        if moment in ("subagent_start", "subagent_stop") and self._subagent is not None:
            return self._subagent.name, foreign_agent_name(self._subagent.name)
        return ()

    async def _run(
        self,
        moment: Moment,
        tool: str | None,
        arguments: dict[str, Any] | None,
        facts: dict[str, Any],
        *,
        fails_closed: bool = False,
    ) -> HookResult:
        names = self._names(moment, tool)
        concerned = [(hook, owner) for hook, owner in self._hooks if hook.is_for(moment) and _matches(hook, names)]
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

        if not await asyncio.to_thread(self._may_run, hook):
            return HookAnswer(failure=changed_since(hook))
        sent = {**self._facts(), "hook_event_name": hook.event or hook.moment, **facts}
        if self._subagent is not None:
            name = self._subagent.name
            sent["agent_id"] = self._subagent.id
            sent["agent_type"] = foreign_agent_name(name) if hook.is_foreign else name
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


def changed_since(hook: Hook | EditCommand) -> str:
    """Return why a hook of a project is not run any more."""
    again = f"dragoman agents accept --hook {hook.name}"
    return f"a file that it names has changed since you accepted it; look at it again: {again}"


def _matches(hook: Hook, names: Sequence[str]) -> bool:
    """Whether a hook concerns what has these names; a moment without a name concerns all its hooks."""
    return not hook.matcher or not names or any(re.fullmatch(hook.matcher, name) for name in names)


def _stricter_only(answer: HookAnswer) -> HookAnswer:
    return msgspec.structs.replace(_without_permission(answer), new_input=None, new_output=None)


def _without_permission(answer: HookAnswer) -> HookAnswer:
    return msgspec.structs.replace(answer, wish="" if answer.wish == "allow" else answer.wish)


def _combined(answers: Sequence[HookAnswer]) -> HookResult:
    changing = [answer for answer in answers if answer.new_input is not None]
    if changing:  # a permission is for the arguments that its hook has seen, or wants itself
        answers = [answer if answer is changing[-1] else _without_permission(answer) for answer in answers]
    wish = min((answer.wish for answer in answers), key=_ORDER.index)
    reasons = [answer.reason for answer in answers if answer.wish == wish and answer.reason]
    outputs = [answer.new_output for answer in answers if answer.new_output is not None]
    return HookResult(
        wish,
        "; ".join(reasons),
        "\n".join(answer.context for answer in answers if answer.context),
        changing[-1].new_input if changing else None,
        outputs[-1] if outputs else None,
        any(answer.ends_turn for answer in answers),
    )

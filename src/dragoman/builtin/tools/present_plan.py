"""`present_plan`: the end of plan mode. The user accepts the plan and the mode to go on in, edits it, or rejects it.

Only an answer of the user ends plan mode: one of the options of the permission request, or a change of the mode while
the question is open. The mode that allows most, `full`, is not offered.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta, Struct

from dragoman.builtin.mode_switch import PLAN
from dragoman.builtin.tools import paths
from dragoman.builtin.tools.tool import Kind, NoFormError, Preview, Tool, ToolError, ToolOutput
from dragoman.policy.modes import PLAN_FILE

if TYPE_CHECKING:
    from dragoman.builtin.mode_switch import ModeSwitch
    from dragoman.builtin.tools.tool import ToolContext
    from dragoman.policy import Request
    from dragoman.policy.decide import Option

_ACCEPT: Final = "accept_"
_EDIT: Final = "edit_plan"
_REJECT: Final = "keep_planning"
_MOST_CHARACTERS: Final = 100_000


class PresentPlanArguments(Struct):
    """The plan."""

    plan: Annotated[
        str | None, Meta(description=f"The whole plan in Markdown; left out, it is read from {PLAN_FILE}.")
    ] = None


class PresentPlanTool(Tool):
    """The tool that presents the plan to the user."""

    name: Final = "present_plan"
    kind: Final[Kind] = "switch_mode"
    arguments: Final = PresentPlanArguments
    description: Final = (
        "In plan mode, present your finished plan to the user, who accepts it, edits it or rejects it. If it is "
        "accepted, plan mode ends and you go on with the work at once. Only for plans of work, not for answers."
    )

    def preview(self, arguments: dict[str, Any], cwd: str) -> Preview:
        return Preview("Present the plan")

    def requests(self, arguments: PresentPlanArguments, context: ToolContext) -> tuple[Request, ...]:
        return ()  # the plan itself is the question

    async def run(self, arguments: PresentPlanArguments, context: ToolContext) -> ToolOutput:
        modes = context.modes
        if modes is None or modes.current != PLAN:
            raise ToolError("the session is not in plan mode, so there is no plan to accept; go on with the work")
        plan, was_edited = await _plan_of(arguments, context), False
        while True:
            await context.progress(ToolOutput(plan))
            chosen = await _chosen(context, modes)
            if chosen == _EDIT:
                try:
                    edited = await context.access.edit_text("Edit the plan", plan)
                except NoFormError:
                    return await _edit_in_file(plan, context)
                if edited is not None and edited.strip() != plan:
                    plan, was_edited = edited.strip(), True
            elif chosen is not None and chosen.startswith(_ACCEPT):
                return await _accepted(chosen.removeprefix(_ACCEPT), plan, context, modes, was_edited=was_edited)
            else:
                return ToolOutput(
                    "The user did not accept the plan. Plan mode goes on: ask what is missing, or change the plan and "
                    "present it again."
                )


async def _plan_of(arguments: PresentPlanArguments, context: ToolContext) -> str:
    plan = (arguments.plan or "").strip()
    if not plan:
        with suppress(FileNotFoundError):
            plan = (await context.access.read_text(os.path.join(context.cwd, PLAN_FILE))).strip()
    if not plan:
        raise ToolError(f"the plan is empty; write it as the argument plan, or to {PLAN_FILE}")
    if len(plan) > _MOST_CHARACTERS:
        raise ToolError(f"the plan has {len(plan):,} characters, more than {_MOST_CHARACTERS:,}; shorten it")
    return plan


async def _chosen(context: ToolContext, modes: ModeSwitch) -> str | None:
    """Return the id of the answer; None without one.

    A mode that the user chooses in another way accepts the plan, too.
    """
    from dragoman.policy.decide import Option

    options: list[Option] = [
        Option(f"{_ACCEPT}{mode.id}", f"Accept, and go on in mode {mode.id}", "allow_once") for mode in modes.after_plan
    ]
    options += [Option(_REJECT, "Keep planning", "reject_once"), Option(_EDIT, "Edit the plan first", "reject_once")]
    asking = asyncio.ensure_future(context.choose(options))
    switching = asyncio.ensure_future(modes.chosen_by_user())
    try:
        await asyncio.wait({asking, switching}, return_when=asyncio.FIRST_COMPLETED)
        if switching.done():
            return f"{_ACCEPT}{switching.result()}"
        return asking.result()
    finally:
        for task in (asking, switching):
            task.cancel()
        await asyncio.wait({asking, switching})


async def _accepted(
    mode_id: str, plan: str, context: ToolContext, modes: ModeSwitch, *, was_edited: bool
) -> ToolOutput:
    if modes.current != mode_id:
        await modes.choose(mode_id)
    changed = f" The user changed the plan; this is the accepted one:\n\n{plan}" if was_edited else ""
    return ToolOutput(
        f"The user accepted the plan. Plan mode is over, and what was written about it does not apply any more: the "
        f"mode is {mode_id}. Go on with the work as planned.{changed}"
    )


async def _edit_in_file(plan: str, context: ToolContext) -> ToolOutput:
    """Have the plan edited as a file, for clients without forms; the turn ends until the user goes on.

    Raises: ToolError if the file may not be written, such as one that is a link to another.
    """
    path = os.path.join(context.cwd, PLAN_FILE)
    for request in paths.change(f"Write {PLAN_FILE}", path, context):
        verdict = context.verdict(request)
        if verdict.action != "allow":
            raise ToolError(f"{PLAN_FILE} cannot be written for the user to edit: {verdict.why}; ask what to change")
    await context.access.write_text(path, f"{plan}\n")
    context.ask_in_words(f"The plan is in {PLAN_FILE}. Edit it there, and then write that it is ready.")
    return ToolOutput(
        f"The user wants to edit the plan in {PLAN_FILE} first. The turn ends now. After the next prompt, read the "
        "file and present the plan again."
    )

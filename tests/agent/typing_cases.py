"""What a type checker sees of the agent's methods; checked by mypy, never run."""

from __future__ import annotations

from dragoman import Agent, Turn, extension
from dragoman.agent import AgentSession, Context

agent = Agent("typed")


async def words_are_checked(turn: Turn) -> None:
    turn.tool("t", kind="edit")
    turn.tool("t", kind="editt")  # type: ignore[arg-type]  # misspelt
    turn.tool("t", kind=extension("_mine"))
    await turn.plan(["a", ("b", "in_progress"), ("c", extension("_paused"))])
    await turn.plan([("b", "doing")])  # type: ignore[list-item]  # not a status
    async with turn.tool("t") as call:
        await call.update(status="completed", kind="read")
        await call.update(status="done")  # type: ignore[arg-type]  # not a status
    await turn.notice("warning", "t")
    await turn.notice("warn", "t")  # type: ignore[arg-type]  # not a severity


@agent.prompt
async def a_stop_reason_may_be_returned(turn: Turn) -> str:
    return "end_turn"


@agent.prompt  # type: ignore[type-var]  # a number is not a stop reason
async def a_number_is_not_a_stop_reason(turn: Turn) -> int:
    return 1


@agent.set_mode
async def members_of_a_request_may_be_named(mode_id: str, session: AgentSession) -> None: ...


@agent.logout
def a_plain_handler_is_fine(context: Context) -> None: ...


@agent.close_session  # type: ignore[arg-type]  # its answer is another one
async def the_answer_is_checked(session: AgentSession) -> int:
    return 1

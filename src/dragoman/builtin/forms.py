"""Questions to the user by forms of the client (elicitation). A client that cannot show a form is not asked here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from dragoman.agent import ClientError
from dragoman.builtin.tools.tool import ToolError
from dragoman.schema import v1

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.agent import AgentSession
    from dragoman.builtin.tools.tool import AnswerChoice


async def ask_by_form(
    session: AgentSession, question: str, choices: Sequence[AnswerChoice], *, is_multiple: bool
) -> list[str] | None:
    """Return the user's answer; None if they declined. Raises: ToolError."""
    options = [v1.EnumOption(choice.label, choice.label, choice.description or UNSET) for choice in choices]
    answer: v1.ElicitationPropertySchema
    if not options:
        answer = v1.StringPropertySchema(title="Answer", min_length=1)
    elif is_multiple:
        answer = v1.MultiSelectPropertySchema(v1.TitledMultiSelectItems(options), title="Answer")
    else:
        answer = v1.StringPropertySchema(title="Answer", one_of=options)
    filled_in = await _filled_in(session, question, answer)
    if filled_in is None:
        return None
    return [str(choice) for choice in filled_in] if isinstance(filled_in, (list, tuple)) else [str(filled_in)]


async def edit_by_form(session: AgentSession, question: str, text: str) -> str | None:
    """Return a text as the user changed it; None if they declined. Raises: ToolError."""
    edited = await _filled_in(session, question, v1.StringPropertySchema(title="Text", default=text, min_length=1))
    return edited if isinstance(edited, str) else None


async def _filled_in(session: AgentSession, question: str, answer: v1.ElicitationPropertySchema) -> object:
    schema = v1.ElicitationSchema(properties={"answer": answer}, required=["answer"])
    try:
        reply = await session.elicit(question, schema)
    except ClientError as error:
        raise ToolError(f"the question could not be asked: {error.message}") from error
    if not isinstance(reply, v1.AcceptElicitation) or not reply.content:
        return None
    return reply.content.get("answer")

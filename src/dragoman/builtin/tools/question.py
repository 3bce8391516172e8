"""`question`: asks the user. With a form it waits for the answer; otherwise it asks in words and the turn ends.

A question is never a permission request: rules, modes and "always" answer those, and only the user answers a question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta, Struct

from dragoman.builtin.tools import paths
from dragoman.builtin.tools.tool import (
    AnswerChoice,
    Kind,
    NoFormError,
    Preview,
    QuestionCancelled,
    Tool,
    ToolError,
    ToolOutput,
)
from dragoman.text.terminal import shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.builtin.tools.tool import ToolContext
    from dragoman.policy import Request


class QuestionChoice(Struct):
    """One answer to choose from."""

    label: Annotated[str, Meta(description="The answer in a few words.")]
    description: Annotated[str | None, Meta(description="What it would mean.")] = None


class QuestionArguments(Struct):
    """The question and its choices."""

    question: Annotated[str, Meta(description="The question, complete and short.")]
    choices: Annotated[
        list[QuestionChoice | str] | None, Meta(description="Answers to choose from; without any the user writes one.")
    ] = None
    multiple: Annotated[bool | None, Meta(description="More than one choice can be right.")] = None


class QuestionTool(Tool):
    """The tool that asks the user."""

    name: Final = "question"
    kind: Final[Kind] = "other"
    arguments: Final = QuestionArguments
    description: Final = (
        "Ask the user a question and wait for the answer. Only for what you cannot find out or decide by yourself; "
        "offer choices where you can."
    )

    def preview(self, arguments: dict[str, Any], cwd: str) -> Preview:
        question = shorten(paths.word(arguments, "question"), 300)
        return Preview(f"Ask: {question}" if question else "Ask a question")

    def requests(self, arguments: QuestionArguments, context: ToolContext) -> tuple[Request, ...]:
        return ()

    async def run(self, arguments: QuestionArguments, context: ToolContext) -> ToolOutput:
        if not arguments.question.strip():
            raise ToolError("the question is empty; write what you want to know")
        choices: dict[str, AnswerChoice] = {}  # each label once, because two equal buttons cannot be distinguished
        for choice in arguments.choices or []:
            label, description = (choice, None) if isinstance(choice, str) else (choice.label, choice.description)
            if label.strip():
                choices.setdefault(label.strip(), AnswerChoice(label.strip(), description or ""))
        question, is_multiple = arguments.question.strip(), bool(arguments.multiple)
        offered = list(choices.values())
        try:
            answer = await context.access.ask(question, offered, is_multiple=is_multiple)
        except NoFormError:
            context.ask_in_words(_in_words(question, offered, is_multiple=is_multiple))
            return ToolOutput(
                "The user is asked in words. The turn ends now, and the user's next prompt is the answer."
            )
        except QuestionCancelled:
            return ToolOutput("The user cancelled the question. Do not ask it again; go on without an answer, or stop.")
        if answer is None:
            return ToolOutput("The user declined to answer. Continue with what you know, and state what you assumed.")
        chosen = ", ".join(answer)
        return ToolOutput(f"The user answered: {chosen}" if chosen.strip() else "The user chose none of them.")


def _in_words(question: str, choices: Sequence[AnswerChoice], *, is_multiple: bool) -> str:
    """Return the question with its choices as a list."""
    lines = [
        f"- {choice.label}: {choice.description}" if choice.description else f"- {choice.label}" for choice in choices
    ]
    if is_multiple and lines:
        lines.append("\nMore than one can be chosen.")
    return "\n".join([question, "", *lines] if lines else [question])

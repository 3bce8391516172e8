"""Wrap an agent of pydantic-ai: its tools ask for permission in the editor, its history is kept.

    pip install 'dragoman[pydantic-ai]'
    dragoman exec 'delete notes.txt' -- python examples/wrapped_pydantic_ai.py

The model here is a function, so that it runs offline; put the name of a real one in its place.
"""

from collections.abc import AsyncIterator

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from dragoman.adapters import wrap


async def answer(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
    """Play a model: `delete FILE` calls the tool, anything else is repeated."""
    last = messages[-1].parts[-1]
    text = str(last.content) if isinstance(last, (UserPromptPart, ToolReturnPart)) else ""
    word, _, rest = text.partition(" ")
    if isinstance(last, UserPromptPart) and word == "delete":
        yield {0: DeltaToolCall("delete_file", f'{{"path": "{rest}"}}', tool_call_id=f"call_{len(messages)}")}
    else:
        yield f"You wrote: {text}" if isinstance(last, UserPromptPart) else f"The tool answered: {text}"


assistant = Agent(FunctionModel(stream_function=answer), name="assistant")


@assistant.tool_plain(requires_approval=True)
def delete_file(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


agent = wrap(assistant)

if __name__ == "__main__":
    agent.run()

# mypy: ignore-errors
"""An agent of openai-agents whose model is a server on loopback. Run as: python openai_program.py URL STORE."""

import sys

from agents import Agent, OpenAIChatCompletionsModel, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

from dragoman.adapters import wrap

set_tracing_disabled(True)


@function_tool
def read_file(path: str) -> str:
    """Read a file."""
    print("reading", path)  # noqa: T201  # must not reach the client
    return f"content of {path}"


@function_tool(needs_approval=True)
def write_file(path: str, content: str) -> str:
    """Write a file."""
    return f"wrote {path}"


model = OpenAIChatCompletionsModel("scripted-model", AsyncOpenAI(base_url=f"{sys.argv[1]}/v1", api_key="none"))
agent = Agent("writer", instructions="You are a test.", tools=[read_file, write_file], model=model)

if __name__ == "__main__":
    wrap(agent, store=sys.argv[2]).run()

# mypy: ignore-errors
"""An agent of LangChain with an ACP agent as its tool: python tool_caller.py FOLDER; writes what happened as JSON."""

import asyncio
import json
import sys

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver

from dragoman import allow_once, as_tool

SCRIPTED = [sys.executable, "-m", "dragoman.testing.scripted_agent"]


class Caller(BaseChatModel):
    """Gives each prompt to the tool, and repeats what the tool returned."""

    @property
    def _llm_type(self):
        return "caller"

    def bind_tools(self, tools, **options):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **options):
        last = messages[-1]
        if isinstance(last, ToolMessage):
            message = AIMessage(f"{last.status}: {last.content}")
        else:
            call = {"name": "coder", "args": {"task": last.content}, "id": f"call_{len(messages)}"}
            message = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])


def agent_with(tool):
    return create_agent(Caller(), [tool.for_langchain()], checkpointer=InMemorySaver())


async def ask(agent, text, thread):
    config = {"configurable": {"thread_id": thread}}
    custom = []
    async for mode, piece in agent.astream({"messages": [("user", text)]}, config, stream_mode=["custom", "values"]):
        if mode == "custom":
            custom.append(piece)
        else:
            answer = piece["messages"][-1].content
    return answer, custom


async def main(folder):
    seen = {}
    tool = as_tool(SCRIPTED, name="coder", cwd=folder, session="conversation", permission=allow_once)
    async with tool:
        agent = agent_with(tool)
        seen["tool"] = await ask(agent, "tool", "a")
        seen["permission"] = await ask(agent, "permission notes.txt", "a")
        await ask(agent, "say hello", "b")
        seen["sessions"] = len(set(tool._conversations.values()))
        seen["crash"] = (await ask(agent, "crash 4", "a"))[0]
        seen["after"] = (await ask(agent, "say back", "a"))[0]
        running = asyncio.ensure_future(ask(agent, "slow", "c"))
        while len(tool._task_agent._refused) == 0:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.wait([running])
        seen["cancelled"] = running.cancelled()
        seen["on"] = (await ask(agent, "say on", "d"))[0]
    return seen


folder = sys.argv[1]
seen = asyncio.run(main(folder))
waiting = agent_with(as_tool(SCRIPTED, name="coder", cwd=folder))
config = {"configurable": {"thread_id": "x"}}
seen["sync"] = waiting.invoke({"messages": [("user", "say sync")]}, config)["messages"][-1].content
seen["refused"] = waiting.invoke({"messages": [("user", "permission a")]}, config)["messages"][-1].content
sys.stdout.write(json.dumps(seen) + "\n")

# mypy: ignore-errors
"""Graphs of LangGraph, LangChain and deepagents with a model that plays a script: python graphs.py NAME STORE."""

import sys
import time

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt

from dragoman.adapters import wrap


class Script(BaseChatModel):
    """`DELETE paths`, `TODO`, `SLOW`, `BOOM`, `TASK`; anything else is repeated with the number of prompts so far."""

    @property
    def _llm_type(self):
        return "script"

    def bind_tools(self, tools, **options):
        return self

    def _pieces(self, messages):
        last = messages[-1]
        if isinstance(last, ToolMessage):
            results = []
            for message in reversed(messages):
                if not isinstance(message, ToolMessage):
                    break
                results.insert(0, message.content)
            yield AIMessageChunk("Tool finished: ")
            yield AIMessageChunk("; ".join(results))
            return
        text = last.content if isinstance(last.content, str) else last.content[0]["text"]
        word, _, rest = text.partition(" ")
        if word == "DELETE":
            for index, path in enumerate(rest.split()):
                yield call("delete_file", f'{{"path": "{path}"}}', f"call_{len(messages)}_{index}", index)
        elif word == "TODO":
            yield call(
                "write_todos", '{"todos": [{"content": "look", "status": "in_progress"}]}', f"todo_{len(messages)}", 0
            )
        elif word == "BOOM":
            yield call("boom", "{}", f"boom_{len(messages)}", 0)
        elif word == "TASK":
            arguments = '{"description": "Hello", "subagent_type": "general-purpose"}'
            yield call("task", arguments, f"task_{len(messages)}", 0)
        elif word == "SLOW":
            for number in range(600):
                yield AIMessageChunk(f"{number} ")
                time.sleep(0.05)
        else:
            prompts = [message for message in messages if isinstance(message, HumanMessage)]
            yield AIMessageChunk(f"{len(prompts)}: ")
            yield AIMessageChunk(text if isinstance(last.content, str) else f"{text} with {last.content[1]['type']}")

    def _stream(self, messages, stop=None, run_manager=None, **options):
        for piece in self._pieces(messages):
            chunk = ChatGenerationChunk(message=piece)
            if run_manager is not None and piece.content:
                run_manager.on_llm_new_token(piece.content, chunk=chunk)
            yield chunk

    def _generate(self, messages, stop=None, run_manager=None, **options):
        whole = AIMessageChunk("")
        for piece in self._pieces(messages):
            whole += piece
        return ChatResult([ChatGeneration(message=AIMessage(whole.content, tool_calls=whole.tool_calls))])


def call(name, arguments, id, index):
    piece = {"name": name, "args": arguments, "id": id, "index": index, "type": "tool_call_chunk"}
    return AIMessageChunk("", tool_call_chunks=[piece])


def delete_file(path: str) -> str:
    """Delete a file."""
    print("deleting", path)  # noqa: T201  # must not reach the client
    return f"deleted {path}"


def boom() -> str:
    """Break."""
    raise ValueError("tool broke")


def make_langchain():
    from langchain.agents import create_agent
    from langchain.agents.middleware import HumanInTheLoopMiddleware, TodoListMiddleware

    middleware = [TodoListMiddleware(), HumanInTheLoopMiddleware(interrupt_on={"delete_file": True})]
    return create_agent(Script(), [delete_file, boom], middleware=middleware, checkpointer=InMemorySaver())


def make_without_checkpoints():
    from langchain.agents import create_agent

    return create_agent(Script(), [delete_file])


def make_deep():
    from deepagents import create_deep_agent

    return create_deep_agent(
        model=Script(), tools=[delete_file], interrupt_on={"delete_file": True}, checkpointer=InMemorySaver()
    )


def make_asking():
    """A graph that asks in words."""

    def node(state):
        colour = interrupt({"question": "Which colour?"})
        return {"messages": [AIMessage(f"painted {colour}")]}

    graph = StateGraph(MessagesState)
    graph.add_node("paint", node)
    graph.add_edge(START, "paint")
    graph.add_edge("paint", END)
    return graph.compile(checkpointer=InMemorySaver())


KINDS = {
    "langchain": make_langchain,
    "without_checkpoints": make_without_checkpoints,
    "deep": make_deep,
    "asking": make_asking,
}

if __name__ == "__main__":
    wrap(KINDS[sys.argv[1]](), store=sys.argv[2]).run()

"""One function for each kind of source, which makes its adapter: what `wrap` takes, and scripts call.

Each loads its adapter, and with it a framework or an HTTP client, when it is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from dragoman.adapters.adapter import Adapter
    from dragoman.adapters.context import PromptContext


def pydantic_ai(agent: Any, *, deps: Any = None, **options: Any) -> Adapter:
    """Wrap an agent of pydantic-ai.

    Args:
        agent: a `pydantic_ai.Agent`.
        deps: the dependencies that its tools get.
        options: further arguments of every run, such as `model_settings` or `usage_limits`.
    """
    from dragoman.adapters.frameworks.pydantic_agent import PydanticAIAdapter

    return PydanticAIAdapter(agent, deps=deps, **options)


def langgraph(
    graph: Any,
    *,
    config: Mapping[str, Any] | None = None,
    context: Any = None,
    make_input: Callable[[PromptContext], Any] | None = None,
) -> Adapter:
    """Wrap a compiled graph of LangGraph, an agent of LangChain (`create_agent`) or a deep agent.

    Args:
        graph: the graph. With a checkpointer it can ask for permission; `thread_id` is the session's id.
        config: further members of the run's config.
        context: the runtime context of the graph.
        make_input: the graph's input for a prompt, for graphs without a channel `messages`.
    """
    from dragoman.adapters.frameworks.graph_agent import LangGraphAdapter

    return LangGraphAdapter(graph, config=config, context=context, make_input=make_input)


def openai_agents(agent: Any, **options: Any) -> Adapter:
    """Wrap an agent of openai-agents.

    Args:
        agent: an `agents.Agent`.
        options: further arguments of every run, such as `context`, `max_turns` or `run_config`.
    """
    from dragoman.adapters.frameworks.openai_runs import OpenAIAgentsAdapter

    return OpenAIAgentsAdapter(agent, **options)


def ui_stream(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: Mapping[str, Any] | None = None,
    resume: bool = False,
) -> Adapter:
    """Wrap an AI SDK endpoint of version 5, 6 or 7, as `useChat` calls it.

    Args:
        url: the address that chats are posted to, such as `https://example.com/api/chat`.
        headers: headers of every request.
        body: further members of every request's body.
        resume: continue a running answer with GET `url/<id>/stream`, after a broken connection and when a session is
            opened again.

    Raises:
        ConfigError: it is not an address.
    """
    from dragoman.adapters.endpoints.ui_stream import UIStreamAdapter

    return UIStreamAdapter(url, headers=headers, body=body, resume=resume)


def ag_ui(url: str, *, headers: Mapping[str, str] | None = None, body: Mapping[str, Any] | None = None) -> Adapter:
    """Wrap an endpoint of the AG-UI protocol.

    Args:
        url: the address that runs are posted to.
        headers: headers of every request.
        body: further members of every request, such as `forwardedProps`.

    Raises:
        ConfigError: it is not an address.
    """
    from dragoman.adapters.endpoints.ag_ui import AGUIAdapter

    return AGUIAdapter(url, headers=headers, body=body)


def openai_chat(
    url: str,
    *,
    model: str | None = None,
    system: str = "",
    key: str | None = None,
    headers: Mapping[str, str] | None = None,
    body: Mapping[str, Any] | None = None,
) -> Adapter:
    """Wrap a chat-completions endpoint: llama.cpp, vLLM, Ollama, LM Studio, OpenAI, a gateway.

    Args:
        url: the address of the API (`http://127.0.0.1:8080/v1`), or of its `/chat/completions`.
        model: the model's name; by default the first that the server lists. The others can be chosen.
        system: the system prompt.
        key: the key; by default the variable OPENAI_API_KEY, for addresses with https only.
        headers: headers of every request.
        body: further members of every request, such as `temperature`.

    Raises:
        ConfigError: it is not an address.
    """
    from dragoman.adapters.endpoints.openai_chat import OpenAIChatAdapter

    return OpenAIChatAdapter(url, model=model, system=system, key=key, headers=headers, body=body)


def command(words: Sequence[str]) -> Adapter:
    """Wrap a command-line tool: each prompt is one run of it, in the folder of the session.

    Args:
        words: the program and its arguments, such as `["llm", "{prompt}"]`. `{prompt}`, `{cwd}` and `{session}` in
            arguments are replaced; without `{prompt}` the prompt is passed to standard input. No shell is involved.

    Raises:
        ConfigError: the program was not found.
    """
    from dragoman.adapters.command_line.adapter import CommandAdapter

    return CommandAdapter(words)


def claude_code(
    program: str | os.PathLike[str] | None = None,
    *,
    arguments: Sequence[str] = (),
    env: Mapping[str, str | None] | None = None,
) -> Adapter:
    """Claude Code, the installed program `claude`.

    Args:
        program: its path or name; by default `claude`, which is looked for when a session is opened.
        arguments: further arguments of its command line, such as `["--append-system-prompt", "Answer briefly."]`.
        env: variables added to its environment; None as a value removes one.
    """
    from dragoman.adapters.claude.adapter import ClaudeAdapter

    return ClaudeAdapter(program, arguments=arguments, env=env)

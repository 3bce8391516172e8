"""The adapter for an object: an adapter, an agent of a framework, or a callable.

Owns the recognition, which imports no framework: an object of one is only there if its user imported it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.adapters.adapter import Adapter
from dragoman.adapters.agent import AdapterAgent
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from dragoman.adapters.values import Setting


def wrap(
    source: Any,
    *,
    name: str | None = None,
    title: str | None = None,
    settings: Sequence[Setting] = (),
    store: str | Path | bool = True,
) -> AdapterAgent:
    """Make an ACP agent of a function, of an agent of a framework, or of an adapter; then `run()` it.

    Args:
        source: a function or generator of the prompt, async or not; an agent or graph of a known framework; or an
            `Adapter`, such as the result of `ui_stream(url)`.
        name: the agent's name for programs.
        title: the agent's name for users.
        settings: what the user can choose for a session, for functions; others have their own.
        store: the file that keeps the sessions; by default one in the user's data folder. False: they are not kept.

    Raises:
        ConfigError: the object is of another kind.
    """
    adapter = find_adapter(source, settings=settings)
    if name is not None:
        adapter.name = name
    if title is not None:
        adapter.title = title
    return AdapterAgent(adapter, store=store)


def framework_of(source: Any) -> Callable[[Any], Adapter] | None:
    """Return what makes an adapter of an object of a known framework; None for any other object."""
    packages = {kind.__module__.partition(".")[0] for kind in type(source).__mro__}
    if "pydantic_ai" in packages and hasattr(source, "run_stream_events"):
        from dragoman.adapters.frameworks.pydantic_agent import PydanticAIAdapter

        return PydanticAIAdapter
    if "langgraph" in packages:
        from dragoman.adapters.frameworks.graph_agent import LangGraphAdapter

        return LangGraphAdapter
    if "agents" in packages and hasattr(source, "handoffs"):
        from dragoman.adapters.frameworks.openai_runs import OpenAIAgentsAdapter

        return OpenAIAgentsAdapter
    return None


def find_adapter(source: Any, *, settings: Sequence[Setting] = ()) -> Adapter:
    """Return the adapter for an object. Raises: ConfigError if there is none."""
    if isinstance(source, Adapter):
        return source
    if isinstance(source, type):
        raise ConfigError(f"{source.__name__} is a class; pass an object of it, or a function")
    framework = framework_of(source)
    if framework is not None:
        return framework(source)
    if callable(source):
        from dragoman.adapters.function import FunctionAdapter

        return FunctionAdapter(source, settings=settings)
    raise ConfigError(
        f"{type(source).__name__} cannot be wrapped; pass a function of the prompt, an agent or graph of pydantic-ai, "
        "LangGraph, LangChain, deepagents or openai-agents, or an Adapter"
    )

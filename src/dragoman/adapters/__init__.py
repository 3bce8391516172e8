"""Adapters: functions, agents of frameworks, chat endpoints and programs as ACP agents.

An adapter yields UI-message chunks (`uistream/`); this package stores them, shows them to clients, asks for permission,
and keeps sessions for sources that do not. Does not depend on any framework: each is imported when it is used. Read
`adapter.py` first, the interface, then `context.py`, `turn.py` and `agent.py`.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dragoman.adapters.adapter import Adapter
    from dragoman.adapters.agent import AdapterAgent
    from dragoman.adapters.blocking import BlockingContext, RunCancelled
    from dragoman.adapters.context import AskedCall, PromptContext
    from dragoman.adapters.function import FunctionAdapter, choice
    from dragoman.adapters.makers import (
        ag_ui,
        claude_code,
        command,
        langgraph,
        openai_agents,
        openai_chat,
        pydantic_ai,
        ui_stream,
    )
    from dragoman.adapters.session import AdapterSession
    from dragoman.adapters.values import (
        AdapterError,
        AskAnswer,
        AskOption,
        Setting,
        SettingValue,
        WrappedSessionInfo,
        WrappedSessionPage,
    )
    from dragoman.adapters.wrapping import wrap

__all__ = [
    "Adapter",
    "AdapterAgent",
    "AdapterError",
    "AdapterSession",
    "AskAnswer",
    "AskOption",
    "AskedCall",
    "BlockingContext",
    "FunctionAdapter",
    "PromptContext",
    "RunCancelled",
    "Setting",
    "SettingValue",
    "WrappedSessionInfo",
    "WrappedSessionPage",
    "ag_ui",
    "choice",
    "claude_code",
    "command",
    "langgraph",
    "openai_agents",
    "openai_chat",
    "pydantic_ai",
    "ui_stream",
    "wrap",
]

if not TYPE_CHECKING:
    from dragoman._lazy import lazy_exports

    __getattr__ = lazy_exports(
        globals(),
        {
            ".adapter": ("Adapter",),
            ".agent": ("AdapterAgent",),
            ".blocking": ("BlockingContext", "RunCancelled"),
            ".context": ("AskedCall", "PromptContext"),
            ".function": ("FunctionAdapter", "choice"),
            ".makers": (
                "ag_ui",
                "claude_code",
                "command",
                "langgraph",
                "openai_agents",
                "openai_chat",
                "pydantic_ai",
                "ui_stream",
            ),
            ".session": ("AdapterSession",),
            ".values": (
                "AdapterError",
                "AskAnswer",
                "AskOption",
                "Setting",
                "SettingValue",
                "WrappedSessionInfo",
                "WrappedSessionPage",
            ),
            ".wrapping": ("wrap",),
        },
    )


def __dir__() -> list[str]:
    return sorted(__all__)

"""Any Python callable as an adapter: an async or plain function or generator of the prompt.

Owns how a callable is called and what it may give. Plain functions run in a thread (`blocking.py`).
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from dragoman.adapters.adapter import Adapter
from dragoman.adapters.blocking import BlockingContext, LoopCalls, ThreadRun
from dragoman.adapters.values import AdapterError, Setting, SettingValue
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from dragoman.adapters.adapter import Yielded
    from dragoman.adapters.context import PromptContext
    from dragoman.adapters.session import AdapterSession
    from dragoman.adapters.values import AskAnswer

# What a parameter can be called, and what it then gets. Any other name gets the text if it is the first one, and the
# context if it is the second.
_CONTEXT: Final = "ctx"
_GETTERS: Final[dict[str, Callable[[Any], Any]]] = {
    "text": lambda ctx: ctx.text,
    "prompt": lambda ctx: ctx.text,
    "blocks": lambda ctx: list(ctx.blocks),
    "ctx": lambda ctx: ctx,
    "context": lambda ctx: ctx,
    "history": lambda ctx: ctx.history,
    "session_id": lambda ctx: ctx.session_id,
    "cwd": lambda ctx: ctx.cwd,
}
_SEES_BLOCKS: Final = frozenset({"blocks", "ctx", "context"})
_SEES_HISTORY: Final = frozenset({"history", "ctx", "context"})


class FunctionAdapter(Adapter):
    """A callable as an agent.

    Args:
        function: takes the prompt's text, or names what it wants: `text`, `blocks`, `ctx`, `history`, `session_id`,
            `cwd`. It returns or yields text, or UI-message chunks.
        name: the agent's name for programs; by default the function's.
        title: the agent's name for users.
        settings: what the user can choose for a session; the function reads `ctx.session.current(id)`.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        title: str | None = None,
        settings: Sequence[Setting] = (),
    ) -> None:
        if not callable(function):
            raise ConfigError(f"{type(function).__name__} is not callable; pass a function of the prompt")
        self._function = function
        self.name = name or _name_of(function)
        self.title = title
        self._getters = _getters(function)
        self._is_async = _is_async(function)
        wanted = {getter for getter, _ in self._getters}
        if wanted & _SEES_BLOCKS:
            self.accepts = ("image", "audio", "embedded_context")
        self.uses_history = bool(wanted & _SEES_HISTORY)
        self._settings = tuple(settings)
        if settings:
            self.settings = self._offered  # type: ignore[method-assign]  # a feature of this object
            self.choose = self._chosen  # type: ignore[method-assign]  # it too

    async def run(self, ctx: PromptContext) -> AsyncIterator[Yielded]:
        items = self._items(ctx)
        try:
            async for item in items:
                for part in _flat(item):
                    yield part
        except SystemExit as error:  # it would end the agent, for all sessions
            raise AdapterError(f"{self.name} called sys.exit({error.code!r}); let it return or raise instead") from None
        finally:
            await items.aclose()

    def resume(self, ctx: PromptContext, answers: Mapping[str, AskAnswer]) -> AsyncIterator[Yielded]:
        """Call the function again; it finds the answers in `ctx.answers`."""
        if _CONTEXT not in {"ctx" if getter == "context" else getter for getter, _ in self._getters}:
            raise AdapterError(
                f"{self.name} yielded a permission question and ended; give it a parameter ctx, so that it is called "
                "again with ctx.answers, or ask inside with ctx.ask()"
            )
        return self.run(ctx)

    async def _items(self, ctx: PromptContext) -> AsyncGenerator[Any, None]:
        if self._is_async:
            result = self._call(ctx)
            async for item in _results(result):
                yield item
            return
        calls = LoopCalls()
        blocking = BlockingContext(ctx, calls)
        run = ThreadRun(lambda: self._call(blocking), calls, f"dragoman-{self.name}")
        items = run.items()
        try:
            async for result in items:
                async for item in _results(result):
                    yield item
        finally:
            await items.aclose()

    def _call(self, ctx: PromptContext | BlockingContext) -> Any:
        return self._function(
            *(_GETTERS[getter](ctx) for getter, name in self._getters if name is None),
            **{name: _GETTERS[getter](ctx) for getter, name in self._getters if name is not None},
        )

    def _offered(self, session: AdapterSession) -> Sequence[Setting]:
        chosen = session.metadata.get("settings", {})
        return [replace(setting, current=chosen.get(setting.id, setting.current)) for setting in self._settings]

    async def _chosen(self, session: AdapterSession, setting_id: str, value: str | bool) -> None:
        session.metadata = {**session.metadata, "settings": {**session.metadata.get("settings", {}), setting_id: value}}
        await session.save()


def choice(id: str, name: str, values: Iterable[str], *, category: Any = None, current: str | None = None) -> Setting:
    """Return a setting with these values, the first of which is the current one unless another is named."""
    listed = list(values)
    if not listed:
        raise ConfigError(f"the setting {id!r} needs at least one value")
    rows = tuple(SettingValue(value, value) for value in listed)
    setting = Setting(id, name, current or listed[0], rows)
    return setting if category is None else replace(setting, category=category)


async def _results(result: Any) -> AsyncIterator[Any]:
    """Yield what a call gave: each item of an async generator, or the awaited value."""
    if isinstance(result, AsyncIterable):
        iterator = aiter(result)
        try:
            async for item in iterator:
                yield item
        finally:
            close = getattr(iterator, "aclose", None)
            if close is not None:
                await close()
    elif isinstance(result, Awaitable):
        yield await result
    else:
        yield result


def _flat(item: Any) -> Iterable[Any]:
    """Return the chunks of one result: a list of them is taken apart, None is nothing."""
    if item is None:
        return ()
    if isinstance(item, (list, tuple)):
        return [part for part in item if part is not None]
    return (item,)


def _is_async(function: Callable[..., Any]) -> bool:
    called = function if inspect.isroutine(function) else getattr(function, "func", None) or type(function).__call__
    return inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called)


def _name_of(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", "") or type(function).__name__
    return "wrapped" if name == "<lambda>" else name


def _getters(function: Callable[..., Any]) -> list[tuple[str, str | None]]:
    """Return what each parameter gets, with its name if it has to be passed by name.

    Raises: ConfigError for a parameter without a default that cannot be filled.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return [("text", None)]  # a builtin without a signature
    found: list[tuple[str, str | None]] = []
    for parameter in parameters:
        by_name = (
            None if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD) else parameter.name
        )
        getter = _annotated(parameter) or (parameter.name if parameter.name in _GETTERS else None)
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if getter is None and parameter.default is not parameter.empty:
            if by_name is None:
                break  # what follows has defaults too
            continue
        if getter is None and len(found) < 2 and by_name is None:
            getter = ("text", _CONTEXT)[len(found)]
        if getter is None:
            raise ConfigError(
                f"{_name_of(function)} has a parameter {parameter.name!r} that cannot be filled; "
                f"parameters are called {', '.join(_GETTERS)}, or have a default"
            )
        found.append((getter, by_name))
    return found


def _annotated(parameter: inspect.Parameter) -> str | None:
    """Return `ctx` for a parameter that is annotated as a context, whatever it is called."""
    annotation = parameter.annotation
    name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return _CONTEXT if name.rpartition(".")[2] in ("PromptContext", "BlockingContext") else None

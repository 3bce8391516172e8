"""How a handler is called: with its arguments in order, or with those it names.

A handler of a role gets two arguments: the request and what the request is about, such as its session. It may take both
in this order, or name what it wants: `session`, `request`, or members of the request such as `mode_id`. Owns that
choice, made once when the handler is registered, so that a mistake is an error there and not in the first call. Also
makes plain functions awaitable. Does not know the protocol's methods.
"""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any

from dragoman.errors import LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    Get = Callable[[Any, Any], Any]

REQUEST_NAMES = ("request", "params")


def bind(
    method: str, handler: Callable[..., Any], subjects: Mapping[str, Get], members: Callable[[], Sequence[str]]
) -> Callable[[Any, Any], Awaitable[Any]]:
    """Return a coroutine function of the request and its subject that calls `handler`.

    Args:
        method: The method that it handles, for errors.
        handler: An `async def` or a plain function.
        subjects: By name, what a handler can ask for besides the request; the first is its second argument in order.
        members: The members of the request; called only if a parameter is none of the other names.

    Raises:
        LocalProtocolError: A parameter is not known, or the handler is a generator.
    """
    if not callable(handler):
        raise LocalProtocolError(f"the handler of {method} is not callable")
    if is_generator(handler):
        raise LocalProtocolError(
            f"the handler of {method} has a yield in it; a handler of a request returns its answer"
        )
    call = awaitable(handler)
    parameters = _parameters(handler)
    if parameters is None:
        return call
    asked, unknown = _by_name(parameters, subjects, members)
    if not unknown:
        return call if _is_in_order(parameters, subjects) else _named(call, asked)
    if _takes(parameters, 2):
        return call
    raise LocalProtocolError(_refusal(method, unknown[0], subjects, members()))


def is_coroutine_function(handler: object) -> bool:
    """Whether calling it gives a coroutine for sure."""
    return inspect.iscoroutinefunction(_function(handler))


def is_generator(handler: object) -> bool:
    """Whether calling it gives a generator, async or not."""
    function = _function(handler)
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def is_plain_function(handler: object) -> bool:
    """Whether it is a `def` of which the result is known not to be awaitable; of a lambda that is not known."""
    function = _function(handler)
    if not inspect.isfunction(function) or function.__name__ == "<lambda>" or hasattr(handler, "__wrapped__"):
        return False
    return not (is_coroutine_function(function) or is_generator(function))


def bind_one(
    method: str, handler: Callable[..., Any], members: Mapping[str, Callable[[Any], Any]], owner: str
) -> Callable[[Any], Any]:
    """Return a function of one object that calls `handler` with it, or with the members of it that the handler names.

    Args:
        method: The method that it handles, for errors.
        handler: The handler.
        members: The members it can name.
        owner: The name of the object itself.

    Raises:
        LocalProtocolError: It has several parameters, and one of them is not known.
    """
    parameters = _parameters(handler)
    if parameters is None:
        return handler
    names = {owner: _itself, **members}
    required = [parameter for parameter in parameters if parameter.default is inspect.Parameter.empty]
    unknown = [parameter.name for parameter in required if parameter.name not in names]
    if len(required) == 1 and (unknown or _is_annotated(required[0], owner)):
        return handler
    if unknown:
        raise LocalProtocolError(
            f"the handler of {method} takes ({owner}), or any of these by name: {', '.join(names)}; "
            f"{unknown[0]!r} is not one of them"
        )
    asked = [(parameter.name, names[parameter.name]) for parameter in parameters if parameter.name in names]

    def named(value: Any) -> Any:
        return handler(**{name: get(value) for name, get in asked})

    return named


def _itself(value: Any) -> Any:
    return value


def _is_annotated(parameter: inspect.Parameter, owner: str) -> bool:
    """Whether the annotation says that it is the whole object, whatever it is called: `prompt: Turn`."""
    annotation = parameter.annotation
    name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return name.rpartition(".")[2].lower() == owner


def _function(handler: Any) -> Any:
    while isinstance(handler, partial):
        handler = handler.func
    if inspect.isfunction(handler) or inspect.ismethod(handler):
        return getattr(handler, "__func__", handler)
    return type(handler).__call__


def _parameters(handler: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """Return the parameters of a handler; None if they are not known, or if it takes any."""
    try:
        parameters = list(inspect.signature(handler).parameters.values())
    except (TypeError, ValueError):
        return None
    if any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in parameters):
        return None
    return [parameter for parameter in parameters if parameter.kind is not inspect.Parameter.VAR_KEYWORD]


def _by_name(
    parameters: Sequence[inspect.Parameter], subjects: Mapping[str, Get], members: Callable[[], Sequence[str]]
) -> tuple[list[tuple[str, Get]], list[str]]:
    """Return what is passed by name, and the required parameters that have no known name."""
    asked: list[tuple[str, Get]] = []
    unknown: list[str] = []
    fields: Sequence[str] | None = None
    for parameter in parameters:
        name = parameter.name
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            unknown.append(name)
        elif name in REQUEST_NAMES:
            asked.append((name, _request))
        elif name in subjects:
            asked.append((name, subjects[name]))
        else:
            if fields is None and not name.startswith("_"):  # defining the types of the request takes time
                fields = members()
            if name in (fields or ()):
                asked.append((name, _member(name)))
            elif parameter.default is inspect.Parameter.empty:
                unknown.append(name)
    return asked, unknown


def _is_in_order(parameters: Sequence[inspect.Parameter], subjects: Mapping[str, Get]) -> bool:
    names = [parameter.name for parameter in parameters]
    kinds = {parameter.kind for parameter in parameters}
    is_simple = kinds == {inspect.Parameter.POSITIONAL_OR_KEYWORD}
    return is_simple and len(names) == 2 and names[0] in REQUEST_NAMES and names[1] == next(iter(subjects))


def _takes(parameters: Sequence[inspect.Parameter], count: int) -> bool:
    """Whether it can be called with so many arguments in order."""
    in_order = [parameter for parameter in parameters if parameter.kind is not inspect.Parameter.KEYWORD_ONLY]
    required = [parameter for parameter in parameters if parameter.default is inspect.Parameter.empty]
    return len(in_order) >= count and all(parameter in in_order[:count] for parameter in required)


def _named(
    call: Callable[..., Awaitable[Any]], asked: Sequence[tuple[str, Get]]
) -> Callable[[Any, Any], Awaitable[Any]]:
    def named(request: Any, subject: Any) -> Awaitable[Any]:
        return call(**{name: get(request, subject) for name, get in asked})

    return named


def awaitable(handler: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """Return the same handler, as a coroutine function if it may be a plain one."""
    if is_coroutine_function(handler):
        return handler

    async def call(*args: Any, **named: Any) -> Any:
        result = handler(*args, **named)
        return await result if inspect.isawaitable(result) else result

    return call


def _request(request: Any, subject: Any) -> Any:
    return request


def _member(name: str) -> Get:
    return lambda request, subject: getattr(request, name)


def _refusal(method: str, name: str, subjects: Mapping[str, Get], members: Sequence[str]) -> str:
    known = ", ".join(dict.fromkeys(("request", *subjects, *members)))
    return (
        f"the handler of {method} takes (request, {next(iter(subjects))}), or any of these by name: {known}; "
        f"{name!r} is not one of them"
    )

"""`tool_search` and `call_tool`: the tools of MCP servers, when there are too many to list them in every request.

Owns the ranking, what a search returns, and what a call of `call_tool` means. The list of tools that a model is given
stays the same however many are found, so that the provider's prompt cache applies. A call of `call_tool` is replaced by
the call of the tool that it names before anything else looks at it: permission, hooks, display and the count of
repetitions see that tool. When tools are searched is decided in `deferral.py`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from dragoman.builtin.tools import paths
from dragoman.builtin.tools.tool import Kind, Preview, Tool, ToolError, ToolOutput
from dragoman.builtin.turn import TurnContext
from dragoman.text.terminal import shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dragoman.builtin.tools.tool import ToolContext
    from dragoman.policy import Request

SEARCH: Final = "tool_search"
CALL: Final = "call_tool"
DEFAULT_LIMIT: Final = 5
MOST_RESULTS: Final = 20
OUTPUT_CHARACTERS: Final = 30_000
_SCHEMA_CHARACTERS: Final = 8_000
_NAMES_SHOWN: Final = 60
_TITLE_CHARACTERS: Final = 80
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
# What a word is worth, by where it stands.
_NAME_WEIGHT, _BEGINNING_WEIGHT, _ARGUMENT_WEIGHT, _TEXT_WEIGHT = 6.0, 2.5, 2.0, 1.5
_EXACT: Final = 1000.0
# What scores less than this share of the best does not match.
_LEAST_SHARE: Final = 0.05
# As they are without a plural s.
_EMPTY_WORDS: Final = " a an and are by for from in is it of on or that the thi to tool use with "
# What models call the arguments of the tool that they call through this one.
_ARGUMENTS: Final = ("arguments", "input", "args", "parameters")


class ToolSearchArguments(Struct):
    """What to look for."""

    query: Annotated[
        str, Meta(description="Words for what the tool has to do, or names of tools. Servers' names count too.")
    ]
    limit: Annotated[int | None, Meta(description=f"Most results, {DEFAULT_LIMIT} if left out.")] = None


class CallToolArguments(Struct):
    """The tool, and what it is called with."""

    name: Annotated[str, Meta(description="Name of the tool, as tool_search returned it.")]
    arguments: Annotated[dict[str, Any] | None, Meta(description="Its arguments, by its own schema.")] = None


class ToolSearchTool(Tool):
    """The tool that finds tools."""

    name: Final = SEARCH
    kind: Final[Kind] = "search"
    arguments: Final = ToolSearchArguments
    description: Final = (
        "Find tools of the connected MCP servers; they are not listed here because there are many. Returns the name, "
        f"the description and the schema of the best matches. Call what you found with {CALL}."
    )

    def preview(self, arguments: dict[str, Any], cwd: str) -> Preview:
        query = paths.word(arguments, "query")
        return Preview(shorten(f"Find tools: {query}" if query else "Find tools", _TITLE_CHARACTERS))

    def requests(self, arguments: ToolSearchArguments, context: ToolContext) -> tuple[Request, ...]:
        return ()  # what the servers have listed is known already

    async def run(self, arguments: ToolSearchArguments, context: ToolContext) -> ToolOutput:
        tools = _searched(context)
        if not tools:
            raise ToolError("no MCP server offers a tool at the moment; go on with the tools that you have")
        limit = min(max(arguments.limit or DEFAULT_LIMIT, 1), MOST_RESULTS)
        ranked = rank(arguments.query, tools)
        if not ranked:
            names = ", ".join(sorted(tools)[:_NAMES_SHOWN])
            more = f" and {len(tools) - _NAMES_SHOWN} more" if len(tools) > _NAMES_SHOWN else ""
            return ToolOutput(f"No tool matches {arguments.query!r}. Try other words. There are: {names}{more}")
        return ToolOutput(_shown(ranked, limit, tools))


class CallTool(Tool):
    """The tool that stands for the one that its arguments name; the loop never runs it."""

    name: Final = CALL
    kind: Final[Kind] = "other"
    arguments: Final = CallToolArguments
    description: Final = f"Call a tool that {SEARCH} has found, with arguments by its schema."

    def preview(self, arguments: dict[str, Any], cwd: str) -> Preview:
        return Preview(shorten(f"Call {paths.word(arguments, 'name')}".strip(), _TITLE_CHARACTERS))

    def requests(self, arguments: CallToolArguments, context: ToolContext) -> tuple[Request, ...]:
        raise ToolError(f"{CALL} cannot be called from here; call the tool by its own name")

    async def run(self, arguments: CallToolArguments, context: ToolContext) -> ToolOutput:
        raise ToolError(f"{CALL} cannot be called from here; call the tool by its own name")


def unwrap(given: Any, tools: Mapping[str, Tool]) -> tuple[Tool, Any]:
    """Return the tool that a call of `call_tool` names, and its arguments. Raises: ToolError."""
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        raise ToolError(f'the arguments of {CALL} are wrong: they must be {{"name": ..., "arguments": {{...}}}}')
    name = given["name"].strip()
    tool = tools.get(name)
    if tool is None or name == CALL:
        raise ToolError(f"there is no tool {name!r}; find the right name with {SEARCH}")
    arguments = next((given[key] for key in _ARGUMENTS if given.get(key) is not None), None)
    if arguments is None:  # some models write the arguments next to the name
        arguments = {key: value for key, value in given.items() if key not in ("name", *_ARGUMENTS)}
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments) if arguments.strip() else {}
        except msgspec.DecodeError:
            raise ToolError(f"arguments must be an object, not a text; use the schema of {name}") from None
    return tool, arguments


# Ranking


def rank(query: str, tools: Mapping[str, Tool]) -> list[Tool]:
    """Return the tools that match a query, the best first; equal ones by name. Rare words count more than common."""
    named = [tools[word] for word in re.split(r"[\s,]+", query.removeprefix("select:")) if word in tools]
    asked = [word for word in dict.fromkeys(_words(query)) if f" {word} " not in _EMPTY_WORDS]
    documents = {name: _Document(tool) for name, tool in tools.items()}
    seen = Counter(word for document in documents.values() for word in document.words)
    scores: dict[str, float] = {tool.name: _EXACT - number for number, tool in enumerate(dict.fromkeys(named))}
    for name, document in documents.items():
        score = sum(document.weight(word) * math.log(1 + len(tools) / (1 + seen[word])) for word in asked)
        if score > 0:
            scores[name] = scores.get(name, 0.0) + score
    least = _LEAST_SHARE * max(scores.values(), default=0.0)
    found = [name for name, score in scores.items() if score >= least or score >= _EXACT / 2]
    return [tools[name] for name in sorted(found, key=lambda name: (-scores[name], name))]


class _Document:
    """The words of one tool by where they stand."""

    def __init__(self, tool: Tool) -> None:
        properties = (tool.schema or {}).get("properties")
        self._name = frozenset(_words(tool.name))
        self._arguments = frozenset(_words(" ".join(map(str, properties)) if isinstance(properties, dict) else ""))
        self._text = frozenset(_words(tool.description))
        self.words = self._name | self._arguments | self._text

    def weight(self, word: str) -> float:
        if word in self._name:
            return _NAME_WEIGHT
        found = (_ARGUMENT_WEIGHT if word in self._arguments else 0.0) + (_TEXT_WEIGHT if word in self._text else 0.0)
        return found + (_BEGINNING_WEIGHT if any(_are_related(word, part) for part in self._name) else 0.0)


def _are_related(one: str, other: str) -> bool:
    """Whether two words begin alike, as `merge` and `merging` do."""
    shorter, longer = sorted((one, other), key=len)
    return len(shorter) > 2 and longer.startswith(shorter[: max(len(shorter) - 1, 4)])


def _words(text: str) -> Iterable[str]:
    """Return the words of a text, without plural s.

    Those within names such as `createIssue` and `list_pull-requests` count too.
    """
    for word in _WORD.findall(text):
        word = word.casefold()
        yield word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _shown(ranked: list[Tool], limit: int, tools: Mapping[str, Tool]) -> str:
    blocks: list[str] = []
    size = 0
    for tool in ranked[:limit]:
        schema = msgspec.json.encode(tool.schema or {}).decode()
        if len(schema) > _SCHEMA_CHARACTERS:
            names = ", ".join(map(str, (tool.schema or {}).get("properties", {})))
            schema = f"(too long to show; its arguments are: {shorten(names, _SCHEMA_CHARACTERS)})"
        block = f"{tool.name}\n{tool.description}\nSchema of the arguments: {schema}"
        if blocks and size + len(block) > OUTPUT_CHARACTERS:
            break
        blocks.append(block)
        size += len(block)
    more = [tool.name for tool in ranked[len(blocks) :]]
    if more:
        listed = ", ".join(more[:_NAMES_SHOWN])
        blocks.append(f"Also matching, without details ({len(more)} of {len(tools)} tools): {listed}")
    return "\n\n".join(blocks)


def _searched(context: ToolContext) -> dict[str, Tool]:
    """Return the tools of servers that this turn has."""
    if not isinstance(context, TurnContext):
        return {}
    return {name: tool for name, tool in context.tools.items() if name in (context.searched_tools or ())}

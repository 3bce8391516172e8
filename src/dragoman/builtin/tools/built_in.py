"""A built-in tool whose module is imported when a model first calls it, or in the background (`preload.py`).

A request to a model needs only how the tools are described. That is in `built_in.json`, which `python -m
tools.descriptions` writes from the tools. To import all of them, and to derive the schemas of their arguments, takes a
tenth of the time until the first request leaves.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from dragoman.builtin.tools.tool import Kind, Preview, Tool, ToolOutput

if TYPE_CHECKING:
    from dragoman.builtin.tools.tool import ToolContext
    from dragoman.policy import Request


class BuiltInTool(Tool):
    """A tool of ours, by its name.

    Args:
        module: the module that defines it, next to this one.
        class_name: its class there.
    """

    def __init__(self, name: str, module: str, class_name: str) -> None:
        self._name = name
        self.module = f"dragoman.builtin.tools.{module}"
        self._class_name = class_name
        self._loaded: Tool | None = None

    @property
    def tool(self) -> Tool:
        """The tool itself; imports its module."""
        if self._loaded is None:
            made = getattr(import_module(self.module), self._class_name)
            self._loaded = cast("Tool", made())
        return self._loaded

    @property
    def name(self) -> str:
        return self._name

    @property
    def description(self) -> str:
        text: str = _descriptions()[self._name]["description"]
        return text

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON schema of its arguments. It is shared: do not change it."""
        schema: dict[str, Any] = _descriptions()[self._name]["parameters"]
        return schema

    @property
    def kind(self) -> Kind:
        return self.tool.kind

    @property
    def arguments(self) -> type[Any]:
        return self.tool.arguments

    def preview(self, arguments: dict[str, Any], cwd: str) -> Preview:
        return self.tool.preview(arguments, cwd)

    async def check(self, arguments: Any, context: ToolContext) -> Preview | None:
        return await self.tool.check(arguments, context)

    def requests(self, arguments: Any, context: ToolContext) -> tuple[Request, ...]:
        return self.tool.requests(arguments, context)

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutput:
        return await self.tool.run(arguments, context)


class ListedTool(BuiltInTool):
    """A tool of ours whose description ends with a list that each session has for itself.

    The list is set before the first request of a session and then stays: another one would make the provider's prompt
    cache useless.
    """

    listing = ""

    @property
    def description(self) -> str:
        return f"{super().description}\n\n{self.listing}" if self.listing else super().description


def schema_of(tool: Tool) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments, as a model gets it."""
    if tool.schema is not None:
        return tool.schema
    return tool.parameters if isinstance(tool, BuiltInTool) else derive_schema(tool.arguments)


def derive_schema(arguments: type[Any]) -> dict[str, Any]:
    """Make the JSON schema of a type."""
    _, components = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    schema = {**components.pop(arguments.__name__)}
    if components:
        schema["$defs"] = components
    return schema


@cache
def _descriptions() -> dict[str, dict[str, Any]]:
    return msgspec.json.decode(Path(__file__).with_name("built_in.json").read_bytes(), type=dict[str, dict[str, Any]])

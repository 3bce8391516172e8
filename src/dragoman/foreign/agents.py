"""Subagents of other programs as declarations of ours. A declaration bounds a run here and permits nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from dragoman.builtin.subagents.files import MOST_STEPS
from dragoman.builtin.tools.foreign_names import our_tool_name
from dragoman.builtin.tools.table import built_in_tools
from dragoman.foreign.models import model_name
from dragoman.foreign.texts import front_matter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dragoman.foreign.proposal import Source
    from dragoman.foreign.reading import Import

_OTHER_NAMES: Final = {"LS": "glob", "list": "glob", "list_directory": "glob", "read_many_files": "read"}
_EDITING: Final = ("edit", "write", "apply_patch")
_OF_SERVER: Final = re.compile(r"(?!mcp_)(?=.*[_*])[\w*.-]+")  # SERVER_TOOL, as opencode and we write it


class AgentDraft:
    """One subagent while it is read: its members in our form, and what it loses."""

    def __init__(self, collected: Import, name: str, source: Source) -> None:
        self.name = name
        self.notes: list[str] = []
        self.problem = ""
        self._collected = collected
        self._source = source
        self._members: dict[str, str] = {}
        self._denied: list[str] = []

    def describe(self, description: str) -> None:
        self._members["description"] = description

    def only(self, names: Iterable[str]) -> None:
        """Bound it to these tools; what is not known is left out, which gives it less."""
        tools: dict[str, None] = {}
        for name in names:
            ours = self._tool(name)
            if ours:
                tools[ours] = None
        if tools:
            self._members["tools"] = ", ".join(tools)
        else:
            self.problem = "none of its tools exists here"

    def without(self, names: Iterable[str]) -> None:
        """Take these tools away."""
        for name in names:
            bare = name.partition("(")[0].strip()
            # One that may be the tool of a server is kept: without it, the agent would have it here.
            ours = bare if _OF_SERVER.fullmatch(bare) and our_tool_name(bare) == bare else self._tool(bare)
            if ours:
                self._denied += _EDITING if ours in _EDITING else (ours,)
            if bare != name.strip():
                self.notes.append(f"{name} forbids a part of a tool; all of {bare} is taken away")

    def _tool(self, name: str) -> str:
        name = name.strip()
        bare, bracket, _ = name.partition("(")
        if bracket and bare not in ("Task", "Agent"):
            self.notes.append(f"{name} permits a part of a tool, which cannot be expressed; it is left out")
            return ""
        if name == "*" or bare.startswith("mcp__"):
            return bare
        if bare.startswith("mcp_") and bare[4:5].isalnum():  # Gemini CLI puts this before SERVER_TOOL
            return bare[4:]
        ours = _OTHER_NAMES.get(bare, our_tool_name(bare))
        if ours in built_in_tools():
            return ours
        self.notes.append(f"there is no tool {bare} here")
        return ""

    def use_model(self, name: str, provider: str = "") -> None:
        model, why = model_name(self._source.program, name, provider)
        if model and self._collected.places.scope == "project":
            self.notes.append(f"a project's agent cannot choose the model; {name} is left out")
        elif model:
            self._members["model"] = model
        elif why:
            self.notes.append(f"{why}; it uses the session's model")

    def use_mode(self, mode: str) -> None:
        self._members["mode"] = mode

    def limit(self, steps: Any) -> None:
        if isinstance(steps, str) and steps.isdecimal():
            steps = int(steps)
        if isinstance(steps, int) and not isinstance(steps, bool) and steps > 0:
            self._members["steps"] = str(min(steps, MOST_STEPS))

    def propose(self, prompt: str) -> None:
        """Add the proposal."""
        if not self._members.get("description"):
            self.problem = self.problem or "it has no description of when to use it"
        if not prompt.strip():
            self.problem = self.problem or "it has no instructions of its own"
        if self.problem:
            self._collected.impossible("agents", self.name, self._source, self.problem, *self.notes)
            return
        if self._denied:
            self._members["disallowed-tools"] = ", ".join(dict.fromkeys(self._denied))

        def write(name: str) -> str:
            return front_matter({"name": name, **self._members}, prompt)

        self._collected.file("agents", self.name, self._source, write, self.notes)

"""The texts that make an agent do what a case needs to see.

Owns the list of actions, the built-in texts for a capable model, the presets for known agents, and reading a file of
the user's. Whether the agent then does it is seen by the case, which is inconclusive if not.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from dragoman.errors import ConfigError

ACTIONS: Final[dict[str, str]] = {
    "say": "answers with a short text, without any tool",
    "long": "answers with a long text, in many pieces",
    "slow": "goes on working for half a minute at least, speaking at the beginning",
    "think": "shows a thought before it answers",
    "plan": "makes a plan of several steps",
    "tool": "uses any tool",
    "read": "reads the file {file}, through the client if it can",
    "write": "writes the file {file}, through the client if it can",
    "edit": "changes the file {file} and shows the difference",
    "run": "runs the command {command}, in the client's terminal if it can",
    "wait": "runs the command {command}, which takes a minute",
    "ask": "does something it asks permission for first",
    "form": "asks the user with a form",
    "url": "asks the user to visit a page",
    "mode": "changes its mode by itself",
    "config": "reports its config options again",
    "commands": "reports its slash commands again",
    "title": "names the session",
    "usage": "reports how full its context is",
    "notice": "shows a notice",
    "compaction": "compacts its context",
    "content": "answers with an image, a resource or another kind of content than text",
    "extension": "calls an extension method of the client",
}
"""What the cases ask for. `{file}`, `{cwd}` and `{command}` in a text are replaced."""

_READ: Final = "Read the file {file} with {tool} and show me its first line."
_WRITE: Final = "Create the file {file} with the content: hello. Use {tool}, not a shell."
_EDIT: Final = "In the file {file} replace the word one by the word eins. Use {tool}, not a shell."
_RUN: Final = "Run this exact shell command with {tool} and show me its output: {command}"
_WAIT: Final = "Run this exact shell command with {tool}, in the foreground: {command}"
_PLAN: Final = "Make a plan of three steps for adding a test to this project, with {tool}. Change nothing."


def _tools(*, read: str, write: str, edit: str, run: str, plan: str) -> dict[str, str]:
    """Return texts that name the tools by the names an agent knows them by, which leaves its model the least choice."""
    named = {"read": _READ, "write": _WRITE, "ask": _WRITE, "edit": _EDIT, "run": _RUN, "wait": _WAIT, "plan": _PLAN}
    tools = {"read": read, "write": write, "ask": write, "edit": edit, "run": run, "wait": run, "plan": plan}
    return {action: text.replace("{tool}", tools[action]) for action, text in named.items()}


GENERIC: Final[dict[str, str]] = {
    "say": "Reply with exactly one word: pong. Do not use any tool.",
    "long": "Count from 1 to 200, separated by spaces. Do not use any tool.",
    "slow": "Count slowly from 1 to 3000, one number a line, and nothing else. Do not use any tool.",
    "think": "Think step by step: how many prime numbers are there below 30? Do not use any tool.",
    "tool": "List the files of the current directory with a tool.",
    **_tools(
        read="your file reading tool",
        write="your file writing tool",
        edit="your file editing tool",
        run="your shell tool",
        plan="your planning tool",
    ),
}

SCRIPTED: Final[dict[str, str]] = {
    "say": "say one two three",
    "long": "flood 200",
    "slow": "slow",
    "think": "think",
    "plan": "plan",
    "tool": "tool",
    "read": "read {file}",
    "write": "fs {file}",
    "edit": "diff",
    "run": "terminal {command}",
    "wait": "terminal {command}",
    "ask": "permission {file}",
    "form": "elicitation",
    "url": "url",
    "mode": "modes code",
    "config": "config",
    "commands": "commands",
    "title": "title A title",
    "usage": "usage",
    "notice": "notice",
    "compaction": "compaction",
    "content": "content",
    "extension": "extension",
}

# Lines of the script that the built-in agent's scripted model plays.
BUILT_IN: Final[dict[str, str]] = {
    "say": "say one two three",
    "long": "flood 200",
    "slow": "slow 900",
    "think": "think how many could there be\nsay many",
    "plan": "todo [>] look; change; test\ntodo [x] look; [>] change; test",
    "tool": "glob *",
    "read": "read {file}",
    "write": "read {file}\nwrite {file} hello",
    "edit": "read {file}\nedit {file} one => eins",
    "run": "run {command}",
    "wait": "run {command}",
    "ask": "write {file} hello",
    "form": "question Which one? | this | that",
    "title": "say one two three",
    "usage": "say one two three",
    "notice": "busy\nsay here again",
}


class Preset(msgspec.Struct, frozen=True):
    """What is known of an agent: how its `agentInfo.name` is recognized, and the texts it needs."""

    names: tuple[str, ...]
    texts: Mapping[str, str] = {}
    login: str = ""
    """An auth method that needs no user, so that authenticate and logout may be tried."""


PRESETS: Final[dict[str, Preset]] = {
    "generic": Preset((), GENERIC),
    "scripted": Preset(("dragoman-scripted",), SCRIPTED, login="scripted-login"),
    # After "scripted", whose name begins with the same word.
    "dragoman": Preset(("dragoman",), BUILT_IN),
    "claude": Preset(
        ("claude",), _tools(read="Read", write="Write", edit="Edit", run="Bash", plan="your planning tool")
    ),
    "cline": Preset(
        ("cline",),
        _tools(
            read="read_files",
            write="apply_patch",
            edit="apply_patch",
            run="run_commands",
            plan="your plan mode",
        ),
    ),
    "codex": Preset(
        ("codex",),
        _tools(
            read="your shell tool",
            write="apply_patch",
            edit="apply_patch",
            run="your shell tool",
            plan="update_plan",
        ),
    ),
    "copilot": Preset(
        ("copilot",), _tools(read="view", write="create", edit="edit", run="bash", plan="your planning tool")
    ),
    "gemini": Preset(
        ("gemini",),
        {
            **_tools(read="read_file", write="write_file", edit="replace", run="run_shell_command", plan="write_todos"),
            # It makes no new file where the client can read files: it takes the answer that there is none for an error.
            "ask": "Run this exact shell command with run_shell_command and show me its output: echo hello > {file}",
        },
    ),
    "kimi": Preset(
        ("kimi",),
        _tools(read="ReadFile", write="WriteFile", edit="StrReplaceFile", run="Shell", plan="SetTodoList"),
    ),
    "opencode": Preset(("opencode",), _tools(read="read", write="write", edit="edit", run="bash", plan="todowrite")),
    "qwen": Preset(
        ("qwen",),
        _tools(read="read_file", write="write_file", edit="edit", run="run_shell_command", plan="todo_write"),
    ),
}
"""Presets by name. Every other agent gets the texts of `generic`."""


class Prompts(msgspec.Struct):
    """The texts for one agent."""

    texts: Mapping[str, str]
    login: str = ""

    def text(self, action: str, **values: str) -> str | None:
        """Return the prompt that leads to the action; None if there is none for this agent."""
        text = self.texts.get(action)
        if text is None:
            return None
        for name, value in values.items():
            text = text.replace(f"{{{name}}}", value)
        return text


def preset(name: str) -> Prompts:
    """Return the texts of a preset; an action that it has no text for gets the text for any model.

    Raises: ConfigError for an unknown name.
    """
    if name not in PRESETS:
        raise ConfigError(f"no preset is called {name!r}; there are {', '.join(PRESETS)}")
    found = PRESETS[name]
    texts = found.texts if name == "scripted" else {**GENERIC, **found.texts}
    return Prompts(texts, found.login)


def preset_for(agent_name: str) -> str:
    """Return the name of the preset for an agent with this `agentInfo.name`."""
    lowered = agent_name.lower()
    for name, known in PRESETS.items():
        if any(part in lowered for part in known.names):
            return name
    return "generic"


def read_prompts(path: str | Path, base: Prompts | None = None) -> Prompts:
    """Read the texts of a TOML or JSON file: action = "text", and `login = "auth-method-id"` if one may be tried.

    An empty text means that this agent cannot do it. Raises: ConfigError.
    """
    try:
        data = Path(path).read_bytes()
        read: Any = msgspec.json.decode(data) if str(path).endswith(".json") else tomllib.loads(data.decode())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from error
    if not isinstance(read, dict) or not all(isinstance(text, str) for text in read.values()):
        raise ConfigError(f'{path}: every line is an action and its text, such as say = "Say hello"')
    login = read.pop("login", base.login if base else "")
    unknown = sorted(read.keys() - ACTIONS.keys())
    if unknown:
        raise ConfigError(f"{path}: no action is called {unknown[0]!r}; there are {', '.join(ACTIONS)}")
    texts = {**(base.texts if base else GENERIC), **read}
    return Prompts({action: text for action, text in texts.items() if text}, login)

"""Settings that start a wrapped agent from an editor, to be pasted into its file. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from dragoman.cli.console import json_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_TITLES: Final = {
    "zed": "~/.config/zed/settings.json",
    "jetbrains": "~/.jetbrains/acp.json",
    "codecompanion": "your Neovim configuration",
    "agent-shell": "your Emacs configuration",
    "acpx": "~/.acpx/config.json",
    "toad": "the command line",
}
EDITORS: Final = tuple(_TITLES)


def where(editor: str) -> str:
    """Return the place that the settings belong to."""
    return _TITLES[editor]


def settings_for(editor: str, name: str, command: Sequence[str]) -> str:
    """Return the settings, ready to be pasted."""
    return _WRITERS[editor](name, command)


def _zed(name: str, command: Sequence[str]) -> str:
    entry = {"type": "custom", "command": command[0], "args": list(command[1:]), "env": {}}
    return _json({"agent_servers": {name: entry}})


def _jetbrains(name: str, command: Sequence[str]) -> str:
    return _json({"agent_servers": {name: {"command": command[0], "args": list(command[1:]), "env": {}}}})


def _codecompanion(name: str, command: Sequence[str]) -> str:
    words = ", ".join(_lua(word) for word in command)
    return f"""\
require("codecompanion").setup({{
  adapters = {{
    acp = {{
      [{_lua(name)}] = function()
        return require("codecompanion.adapters").extend("opencode", {{
          name = {_lua(name)},
          formatted_name = {_lua(name)},
          commands = {{ default = {{ {words} }} }},
        }})
      end,
    }},
  }},
}})
"""


def _agent_shell(name: str, command: Sequence[str]) -> str:
    words = " ".join(json.dumps(word) for word in command[1:])
    shown = json.dumps(name)
    return f"""\
(add-to-list
 'agent-shell-agent-configs
 (agent-shell-make-agent-config
  :identifier (intern {shown})
  :mode-line-name {shown}
  :buffer-name {shown}
  :shell-prompt (concat {shown} "> ")
  :shell-prompt-regexp (concat (regexp-quote {shown}) "> ")
  :client-maker
  (lambda (buffer)
    (acp-make-client
     :command {json.dumps(command[0])}
     :command-params '({words})
     :context-buffer buffer))))
"""


def _acpx(name: str, command: Sequence[str]) -> str:
    return _json({"agents": {name: {"argv": list(command)}}})


def _toad(name: str, command: Sequence[str]) -> str:
    from shlex import join, quote

    return f"toad acp {quote(join(command))} .\n"


def _lua(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _json(value: object) -> str:
    return json_of(value, indent=2) + "\n"


_WRITERS: Final[dict[str, Callable[[str, Sequence[str]], str]]] = {
    "zed": _zed,
    "jetbrains": _jetbrains,
    "codecompanion": _codecompanion,
    "agent-shell": _agent_shell,
    "acpx": _acpx,
    "toad": _toad,
}

"""What the terminal client remembers by itself: the agent that a user chose, and the model and similar options of each.

A mode is not among them: it lasts for its session. The values are in `terminal.json` of the data folder, apart from the
settings, which only the user writes. A file that cannot be read or written costs nothing but the memory.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from dragoman.errors import ConfigError
from dragoman.settings.documents import read_document, write_document

if TYPE_CHECKING:
    from pathlib import Path

FILE_NAME: Final = "terminal.json"
MODE: Final = "mode"
"""The name of a mode that is not an option. Earlier versions remembered it under this name."""


class Preferences:
    """The remembered values, by agent and option."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def all(self) -> dict[str, dict[str, str | bool]]:
        """Return agent -> option -> value; empty if there is no file, or it is broken."""
        kept = {
            agent: {option: value for option, value in options.items() if option != MODE}
            for agent, options in self._read().items()
        }
        return {agent: options for agent, options in kept.items() if options}

    def drop_modes(self) -> list[str]:
        """Forget the modes that an earlier version remembered; return the agents that it did so for.

        Raises: ConfigError if the file cannot be written.
        """
        agents = [agent for agent, options in self._read().items() if MODE in options]
        if agents:
            self._write(self.all())
        return agents

    def chosen(self) -> tuple[str, str] | None:
        """Return the agent that new sessions have if none is named, and its model, which may be empty."""
        found = self._member("chosen")
        agent, model = found.get("agent"), found.get("model", "")
        return (agent, model) if isinstance(agent, str) and agent and isinstance(model, str) else None

    def choose(self, agent: str, model: str = "") -> None:
        """Begin new sessions with an agent, and this model. Raises: ConfigError if it cannot be kept."""
        agents = self.all()
        if model:
            agents.setdefault(agent, {})["model"] = model  # what was chosen last counts
        self._write(agents, {"agent": agent, **({"model": model} if model else {})})

    def _member(self, name: str) -> dict[str, Any]:
        try:
            document = read_document(self._path)
        except ConfigError:
            return {}
        found = document.value.get(name) if document is not None and isinstance(document.value, dict) else None
        return found if isinstance(found, dict) else {}

    def _read(self) -> dict[str, dict[str, str | bool]]:
        preferences: dict[str, dict[str, str | bool]] = {}
        for agent, options in self._member("agents").items():
            if isinstance(options, dict):
                kept = {name: value for name, value in options.items() if isinstance(value, str | bool)}
                if kept:
                    preferences[agent] = kept
        return preferences

    def of(self, agent: str) -> dict[str, str | bool]:
        """Return the values that new sessions of an agent begin with."""
        return self.all().get(agent, {})

    def remember(self, agent: str, option: str, value: str | bool) -> None:
        """Begin new sessions of an agent with a value. Raises: ConfigError if it cannot be kept."""
        preferences = self.all()
        if preferences.get(agent, {}).get(option) != value:
            preferences.setdefault(agent, {})[option] = value
            self._write(preferences)

    def forget(self, agent: str, option: str) -> None:
        """Let the agent decide again. Raises: ConfigError if that cannot be kept."""
        found = self.all()
        if found.get(agent, {}).pop(option, None) is not None:
            self._write({name: options for name, options in found.items() if options})

    def _write(self, agents: dict[str, Any], chosen: dict[str, Any] | None = None) -> None:
        kept = self._member("chosen") if chosen is None else chosen
        write_document(self._path, json.loads(json.dumps({**({"chosen": kept} if kept else {}), "agents": agents})))


def agent_key(agent: str) -> str:
    """Return the name under which the values of an agent are kept: without the words of its command line.

    An agent that is only a command line, `-- PROGRAM`, is that command line.
    """
    name = agent.partition(" ")[0]
    return agent if name in ("", "--") else name

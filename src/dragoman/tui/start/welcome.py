"""The welcome: what is on this machine to work with, as rows to choose from. No user interface, and no colours.

`look` finds agents, keys and local model servers; it starts nothing, and of servers it asks only those of this machine
(`builtin/models/local_servers.py`). The rows are the same in the full screen, inline, in plain lines and in `dragoman
agents`. Loaded when the welcome is shown: a client that is set up does not need it.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from dragoman.errors import ConfigError, DragomanError
from dragoman.extras import install_command
from dragoman.registry.agents import BUILT_IN, SCRIPTED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dragoman.builtin.models.local_servers import FoundServer
    from dragoman.builtin.models.providers import Provider
    from dragoman.registry.agents import AgentEntry, Agents
    from dragoman.registry.known import WellKnownAgent
    from dragoman.registry.login_state import LoginState
    from dragoman.view.rails import RailLine

INTRODUCTION: Final = "Welcome. Choose what to work with; /agents brings this list back."
SETTLED_SECONDS: Final = 0.4
"""The rows are in sight for so long before a key or a line chooses one."""
RowKind = Literal["agent", "model", "install", "key", "demo"]
READY: Final = "Ready"
MODELS: Final = "Ready, with the built-in agent"
LOGIN: Final = "Here, but a login or something else may be missing"
INSTALL: Final = "Can be installed"
OTHER: Final = "Or"
FEW: Final = 5
"""Of the agents that can be installed, so many are shown at first."""
_USE: Final = ("claude", "codex", "gemini", "opencode", "copilot", "goose", "cursor", "qwen", "cline", "kimi")
"""Well-known agents in the order in which they are offered; the others follow by name."""
_NAME: Final = 13
_TITLE: Final = 24


class WelcomeRow(NamedTuple):
    """Something to choose."""

    kind: RowKind
    section: str
    name: str
    title: str
    state: str
    agent: str = ""
    """The agent that is started, by its name."""
    model: str = ""
    """The model that the built-in agent is started with."""
    provider: str = ""
    """The provider whose list has to be asked for a model first."""
    problem: str = ""
    """Why it cannot be started, and what to do."""

    @property
    def key(self) -> str:
        """The letter that chooses it; empty for a row with a number."""
        return {"key": "k", "demo": "d"}.get(self.kind, "")


class ChosenAgent(NamedTuple):
    """The agent of new sessions, and the model of the built-in one."""

    agent: str
    model: str = ""


class Welcome(NamedTuple):
    """What was found, the best row first."""

    rows: tuple[WelcomeRow, ...]
    notes: tuple[str, ...] = ()

    def shown(self, *, has_all: bool = False) -> list[WelcomeRow]:
        """Return the rows that are worth a line: of the agents to install, those that are used most."""
        installs = [row for row in self.rows if row.kind == "install"]
        hidden = set() if has_all else set(map(id, installs[FEW:]))
        return [row for row in self.rows if id(row) not in hidden]

    @property
    def best(self) -> int:
        """The place of the row that is marked: the first one with nothing to install, if something is ready."""
        ready = (place for place, row in enumerate(self.rows) if row.section in (READY, MODELS))
        return next((place for place in ready if self.rows[place].kind != "install"), 0)

    @property
    def last_shown(self) -> WelcomeRow | None:
        """The last of the agents to install that `shown` has."""
        return next((row for row in reversed(self.shown()) if row.kind == "install"), None)

    def hidden(self) -> int:
        """Return how many rows `shown` leaves out."""
        return len(self.rows) - len(self.shown())


def look(folder: str, env: Mapping[str, str] | None = None) -> Welcome:
    """Look at what is on this machine. Blocks, for local servers at most 0.3 s."""
    from dragoman.builtin.models.local_servers import find_servers

    variables = os.environ if env is None else env
    agents, notes = _agents(folder)
    rows = [*agents, *_models(variables, find_servers(variables))]
    key = WelcomeRow("key", OTHER, "API key", "for the built-in agent", "paste it; it is checked and kept")
    demo = WelcomeRow("demo", OTHER, "demo", "a scripted model", "look around, no key needed")
    ready, models, missing, install = (
        [row for row in rows if row.section == section] for section in (READY, MODELS, LOGIN, INSTALL)
    )
    # An agent that has to install something first is not the best row; a server that was not asked comes last.
    ready.sort(key=lambda row: row.kind == "install")
    models.sort(key=lambda row: not row.model)
    if ready or models:
        return Welcome((*ready, *models, *missing, *install, key, demo), tuple(notes))
    own = [row._replace(section="Start here") for row in (key, demo)]
    return Welcome((*own, *missing, *install), tuple(notes))


# Agents


def _agents(folder: str) -> tuple[list[WelcomeRow], list[str]]:
    from pathlib import Path

    from dragoman.registry.agents import load_agents
    from dragoman.settings import find_project, load_settings
    from dragoman.settings.places import cache_dir, config_dir, data_dir

    try:
        agents = load_agents(load_settings(config_dir(), find_project(Path(folder))), data_dir(), cache_dir())
        entries = [entry for entry in agents.entries() if entry.name not in (BUILT_IN, SCRIPTED)]
    except (ConfigError, OSError) as error:
        return [], [str(error)]
    rows = [row for entry in entries if (row := _agent_row(entry, agents)) is not None]
    return sorted(rows, key=lambda row: (row.problem != "", _place(row.agent))), []


def ready_agent() -> str:
    """Return the best agent that needs nothing more to start, without asking any server; empty if there is none."""
    rows, _ = _agents(os.getcwd())
    return next((row.agent for row in rows if row.section == READY and row.kind == "agent"), "")


def _place(name: str) -> tuple[int, str]:
    return (_USE.index(name) if name in _USE else len(_USE), name)


def _agent_row(entry: AgentEntry, agents: Agents) -> WelcomeRow | None:
    from dragoman.registry.known import recognise
    from dragoman.registry.presence import login_here

    known = recognise(entry.name, entry.command) if entry.source != "command" else None
    title = entry.name if known is None else known.title
    login = login_here(entry)
    if not entry.problem:
        if entry.command and not _can_run(entry):
            problem = f"{entry.command[0]} is not on the PATH; see dragoman agents doctor {entry.name}"
            return WelcomeRow("agent", LOGIN, entry.name, title, "its program is missing", entry.name, problem=problem)
        section = READY if login.sign in ("variable", "file") else LOGIN
        if known is None:
            section = READY  # an agent of the user's own settings: what it needs is known there
        state = _login_words(login) if known is not None else f"from {_source(entry)}"
        return WelcomeRow("agent", section, entry.name, title, state, entry.name)
    if entry.source == "project":
        problem = f"the project proposes it: dragoman agents accept {entry.name}"
        return WelcomeRow(
            "agent", LOGIN, entry.name, title, "of this project, not accepted", entry.name, "", "", problem
        )
    if known is None or entry.source != "known":
        return WelcomeRow("agent", LOGIN, entry.name, title, "cannot start", entry.name, problem=entry.problem)
    return _install_row(entry, known, login)


def _can_run(entry: AgentEntry) -> bool:
    path = {**os.environ, **entry.env}.get("PATH", os.defpath)
    return shutil.which(entry.command[0], path=path) is not None


def _source(entry: AgentEntry) -> str:
    return {"user": "your settings", "registry": "the registry", "project": "this project"}.get(
        entry.source, entry.source
    )


def _login_words(login: LoginState) -> str:
    match login.sign:
        case "variable":
            return f"key in {login.detail}"
        case "file":
            return "logged in"
        case "none":
            return "not logged in"
    return "installed"


def _install_row(entry: AgentEntry, known: WellKnownAgent, login: LoginState) -> WelcomeRow:
    """Return the row of a well-known agent that has to be downloaded; of some, only what translates for it."""
    package = next((spec for spec in known.packages if str(spec) == entry.package), None)
    has_own = bool(known.wraps) and shutil.which(known.wraps) is not None
    is_logged_in = login.sign in ("variable", "file")
    words = {"variable": "key found", "file": "logged in"}.get(login.sign, "")
    if package is None:
        state = "its ACP part is not installed" if has_own else "see its own documentation"
        return WelcomeRow("install", INSTALL, known.name, known.title, state, known.name, problem=entry.problem)
    size = f"{package.megabytes} MB" if package.megabytes else "size not known"
    runner = "npm" if entry.command[:1] == ("npx",) else "Python"
    if has_own:
        state = f"installs its ACP part, {size}"
        return WelcomeRow("install", READY if is_logged_in else LOGIN, known.name, known.title, state, known.name)
    state = ", ".join(filter(None, (f"{runner}, {size}", words)))
    return WelcomeRow("install", INSTALL, known.name, known.title, state, known.name)


# Models of the built-in agent


def _models(env: Mapping[str, str], servers: Iterable[FoundServer]) -> list[WelcomeRow]:
    from importlib.util import find_spec

    from dragoman.builtin.models.providers import COMPATIBLE, PROVIDERS, key_owner

    rows: list[WelcomeRow] = []
    missing = "" if find_spec("httpx2") else f"the built-in agent needs it: {install_command('agent')}"
    stored = _stored_keys()
    for provider in PROVIDERS.values():
        variable = next((name for name in provider.keys if name in provider.variables and env.get(name)), "")
        if key_owner(provider.id) is not provider or not (variable or provider.id in stored):
            continue
        state = f"key in {variable}" if variable else "key stored"
        rows.append(_model_row(provider, next(iter(provider.models), ""), state, missing))
    for server in servers:
        has_key = server.provider.has_key(env) or server.provider.id == COMPATIBLE
        if not has_key:
            continue
        if any(row.name == server.provider.title for row in rows) and server.variable:
            continue  # its key has a row, and is sent there
        rows.append(_server_row(server, missing))
    return rows


def _model_row(provider: Provider, model: str, state: str, missing: str) -> WelcomeRow:
    from dragoman.builtin.models.providers import COMPATIBLE

    return WelcomeRow(
        "model",
        LOGIN if missing else MODELS,
        "other server" if provider.id == COMPATIBLE else provider.title or provider.id,
        model or "the model is asked for",
        state,
        BUILT_IN,
        f"{provider.id}:{model}" if model else "",
        "" if model else provider.id,
        missing,
    )


def _server_row(server: FoundServer, missing: str) -> WelcomeRow:
    model = next(iter(server.models), "")
    more = f", {len(server.models) - 1} more" if len(server.models) > 1 else ""
    where = f"at {server.address}"
    row = _model_row(server.provider, model, f"{where}{more}", missing)
    if server.answer == "empty":
        get = "ollama pull qwen3" if server.provider.id == "ollama" else "load a model in it"
        return row._replace(section=LOGIN, state=f"{where}, no model yet", problem=f"it has no model yet: {get}")
    if server.answer == "wants a key":
        return row._replace(state=f"{where}, wants a key")
    if server.answer == "not asked":
        return row._replace(state=f"{where}, not asked")
    return row


def _stored_keys() -> frozenset[str]:
    from dragoman.settings.credentials import Credentials
    from dragoman.settings.places import config_dir

    try:
        return frozenset(Credentials(config_dir()).keys())
    except (ConfigError, OSError):
        return frozenset()


# What is chosen


async def chosen_of(row: WelcomeRow) -> ChosenAgent:
    """Return what a row stands for; a server whose models are not known is asked for them now, with its key.

    Raises: DragomanError if the row cannot be started.
    """
    if row.problem:
        raise ConfigError(row.problem)
    if not row.provider:
        return ChosenAgent(row.agent, row.model)
    from dragoman.builtin.models.keys import ModelEnvironment
    from dragoman.builtin.models.model_lists import list_models
    from dragoman.builtin.models.providers import PROVIDERS
    from dragoman.settings.credentials import Credentials
    from dragoman.settings.places import config_dir

    keys = ModelEnvironment(Credentials(config_dir()))
    keys.reread()
    models = await list_models(PROVIDERS[row.provider], keys)
    if not models:
        raise DragomanError(f"{row.name} lists no model")
    return ChosenAgent(row.agent, f"{row.provider}:{models[0].id}")


# Lines


def row_line(row: WelcomeRow, sign: str, width: int) -> RailLine:
    """Return a row as aligned columns, of at most `width` cells: what chooses it, name, title, state."""
    from dragoman.text.terminal import clip, fit

    title = _TITLE if width >= 76 else max(10, width // 3)
    room = max(4, width - 4 - _NAME - title - 2)
    style = "good" if row.section in (READY, MODELS) else "dim"
    return (
        (f"{sign:>2}  ", "user" if sign else "dim"),
        (f"{fit(row.name, _NAME - 1)} ", ""),
        (f"{fit(row.title, title)}  ", ""),
        (clip(row.state, room), style),
    )


def signs_of(rows: Sequence[WelcomeRow]) -> list[str]:
    """Return what chooses each row: its letter, or its number."""
    signs: list[str] = []
    for row in rows:
        signs.append(row.key or str(sum(sign.isdigit() for sign in signs) + 1))
    return signs


def listed_lines(welcome: Welcome, width: int, *, has_signs: bool = True, has_all: bool = False) -> list[RailLine]:
    """Return the rows below their sections, for a form that only appends lines.

    Args:
        has_signs: with what chooses each row, and with the rows that are only good for choosing.
        has_all: with the agents that few people install.
    """
    lines: list[RailLine] = []
    section = ""
    rows = [row for row in welcome.shown(has_all=has_all) if has_signs or not row.key]
    for sign, row in zip(signs_of(rows), rows, strict=True):
        if row.section != section:
            section = row.section
            lines.append(((f" {section}", "bold"),))
        lines.append((("  ", ""), *row_line(row, sign if has_signs else "", width - 2)))
        if row.kind == "install" and not has_all and row is welcome.last_shown and welcome.hidden():
            lines.append((("   m  " if has_signs else "      ", "user"), (f"{welcome.hidden()} more", "dim")))
    return lines

"""The opening of a run's session, new or an earlier one, with its mode, model and options set by what it offers.

Agents offer the same setting in several places: a mode as a session mode or as an option of category `mode`, a model as
an option of category `model` or as in an older draft of the protocol.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from msgspec import Struct

from dragoman.errors import METHOD_NOT_FOUND, ConfigError, RequestError
from dragoman.schema import is_advertised, v1

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from dragoman.client import RemoteAgent, Session
    from dragoman.client.legacy_models import LegacyModels
    from dragoman.registry.facts import AgentFacts


# A history is replayed from a file; in the recordings that takes less than a tenth of a second.
HISTORY_SECONDS: Final = 5.0


class SessionOpening(Struct, frozen=True, kw_only=True):
    """What a session is opened with."""

    session_id: str | None = None
    """The session to continue; None for a new one."""
    with_history: bool = False
    """Whether the history of a session to continue is wanted: it is loaded then, if the agent can."""
    flag: str = "--resume"
    """How the user named it, for an error."""
    servers: Sequence[v1.McpServer] = ()
    mode: str | None = None
    model: str | None = None
    settings: Sequence[tuple[str, str]] = ()
    """Options of the session by their ids, in the user's words."""
    system_prompt: str | None = None
    """Appended to the agent's own; needs a capability that is not stable."""
    meta: Mapping[str, Any] = {}
    enters_asking_mode: bool = False
    """Whether a well-known agent is put into the mode in which it asks."""


class EnteredSession(NamedTuple):
    """A session, and whether it was loaded: then the agent replays its history."""

    session: Session
    is_loaded: bool = False


def can_reopen(agent: RemoteAgent) -> bool:
    """Return whether another process of the agent can open its sessions."""
    return any(is_advertised(agent.capabilities, gate) for gate in ("sessionCapabilities.resume", "loadSession"))


async def open_session(
    agent: RemoteAgent, opening: SessionOpening, roots: Sequence[str], *, replays_late: bool = False
) -> EnteredSession:
    """Open a new session, or the one to continue, without its history if the agent can and it is not wanted.

    Args:
        agent: the agent, initialized.
        opening: what the session is opened with.
        roots: the folders of the session, its own first.
        replays_late: the agent replays a history after its answer.

    Raises:
        ConfigError: the agent cannot reopen a session.
        RequestError: the agent refuses.
    """
    cwd, id = roots[0], opening.session_id
    members: dict[str, Any] = {"mcp_servers": opening.servers, "additional_directories": roots[1:]}
    members["meta"] = opening.meta or None
    if opening.system_prompt is not None:
        members["append_system_prompt"] = opening.system_prompt
    if id is None:
        return EnteredSession(await agent.new_session(cwd, **members))
    can_load = is_advertised(agent.capabilities, "loadSession")
    can_resume = is_advertised(agent.capabilities, "sessionCapabilities.resume")
    if can_resume and not (can_load and opening.with_history):
        try:
            return EnteredSession(await agent.resume_session(id, cwd, **members))
        except RequestError as error:  # one real agent offers it and does not have it
            if error.code != METHOD_NOT_FOUND or not can_load:
                raise
    if not can_load:
        raise ConfigError(
            f"{opening.flag}: this agent can neither resume nor load a session",
            hint=f"leave out {opening.flag} for a new session; what was done before: dragoman sessions list",
        )
    session = await agent.load_session(id, cwd, **members)
    if replays_late:
        # Wait until the agent has sent its commands, which it does after the history.
        with suppress(TimeoutError):
            async with asyncio.timeout(HISTORY_SECONDS):
                if not session.state.commands:
                    async for received in session.updates():
                        if isinstance(received.update, v1.AvailableCommandsUpdate):
                            break
    return EnteredSession(session, is_loaded=True)


class OfferedValue(NamedTuple):
    """A value that a session offers, and its name."""

    value: str
    name: str


class ChosenSettings(Protocol):
    """What the user chose for a session; `SessionOpening` and the options of `exec` are such."""

    @property
    def mode(self) -> str | None: ...

    @property
    def model(self) -> str | None: ...

    @property
    def settings(self) -> Sequence[tuple[str, str]]: ...


async def apply_settings(session: Session, options: ChosenSettings, models: LegacyModels | None) -> None:
    """Set what the user asked for. The model is set first, because the other options can depend on it.

    Raises:
        ConfigError: the session does not offer one of them.
    """
    if options.model is not None:
        await _set_model(session, options.model, models)
    if options.mode is not None:
        await _set_mode(session, options.mode)
    for key, value in options.settings:
        await _set_option(session, key, value)


async def enter_asking_mode(session: Session, facts: AgentFacts | None) -> list[str]:
    """Put a well-known agent into the mode in which it asks; return sentences for the user about what it does.

    Rules decide about requests, so an agent that starts in a mode without requests would not be bound by them.
    """
    if facts is None:
        return []
    notes = []
    before = current_mode(session)
    asking = next((choice.value for choice in _offered_modes(session) if _is_mode(choice.value, facts.asking_mode)), "")
    for option in session.state.config_options:
        if not isinstance(option, v1.SessionConfigSelect | v1.SessionConfigBoolean):
            continue
        asks = dict(facts.asking_options).get(option.id, option.current_value)
        if asks != option.current_value:
            try:
                await session.set_config_option(option.id, asks)
                notes.append(f"the option {option.id} of the agent is {_shown(asks)}, so that it asks")
            except RequestError as error:
                notes.append(f"the option {option.id} of the agent stays, so it may not ask: {error.message}")
    if asking and before != asking:
        try:
            await _set_mode(session, asking)
            notes.append(
                f"the agent is in its mode {facts.asking_mode}, in which it asks; it starts in {before}, "
                f"which --mode {before} keeps"
            )
        except RequestError as error:
            notes.append(
                f"the agent stays in its mode {before}, in which it may act without asking: {error.message}; rules are "
                "compared with what it did afterwards"
            )
    if facts.unasked:
        notes.append(f"{facts.name} {facts.unasked}; rules see that only afterwards, and --sandbox-agent limits it")
    return notes


async def return_to_mode(session: Session, mode: str) -> None:
    """Set a mode that the session was in before, if it is still offered. Raises: RequestError, ConnectionClosed."""
    is_offered = any(choice.value == mode for choice in _offered_modes(session))
    if is_offered and mode != current_mode(session):
        await _set_mode(session, mode)


def _is_mode(id: str, wanted: str) -> bool:
    return bool(wanted) and (id == wanted or ("://" in id and id.rpartition("#")[2] == wanted))


def _shown(value: str | bool) -> str:
    return value if isinstance(value, str) else "on" if value else "off"


def current_mode(session: Session) -> str | None:
    """Return the id of the mode the session is in, None if it has none."""
    option = _of_category(session, "mode")
    return session.state.mode if option is None else option.current_value


def current_model(session: Session) -> str | None:
    """Return the id of the model that the session states, None if it states none."""
    option = _of_category(session, "model")
    return None if option is None else option.current_value


async def _set_mode(session: Session, wanted: str) -> None:
    option = _of_category(session, "mode")  # an agent with both offers its modes for older clients only
    if option is not None:
        value = _match("--mode", wanted, _choices(option))
        if value != option.current_value:
            await session.set_config_option(option.id, value)
        return
    if session.state.modes is None:
        raise ConfigError(f"--mode {wanted}: this agent has no modes", hint="remove --mode")
    value = _match("--mode", wanted, _offered_modes(session))
    if value != session.state.mode:
        await session.set_mode(value)


def _offered_modes(session: Session) -> list[OfferedValue]:
    option, modes = _of_category(session, "mode"), session.state.modes
    if option is not None:
        return _choices(option)
    return [] if modes is None else [OfferedValue(mode.id, mode.name) for mode in modes.available_modes]


async def _set_model(session: Session, wanted: str, models: LegacyModels | None) -> None:
    option = _of_category(session, "model")
    if option is not None:
        await session.set_config_option(option.id, _match("--model", wanted, _choices(option)))
    elif models is not None and models.offered:
        choices = [OfferedValue(model.model_id, model.name) for model in models.offered]
        await session.set_model(_match("--model", wanted, choices))
    else:
        raise ConfigError(
            f"--model {wanted}: this agent offers no choice of model",
            hint="set the model in the agent's own configuration",
        )


async def _set_option(session: Session, key: str, text: str) -> None:
    known = (v1.SessionConfigBoolean, v1.SessionConfigSelect)
    options = [option for option in session.state.config_options if isinstance(option, known)]
    option = next((option for option in options if option.id == key), None)
    if isinstance(option, v1.SessionConfigBoolean):
        if text not in ("true", "false"):
            raise ConfigError(f"--set {key}={text}: it takes true or false", hint=f"--set {key}=true")
        await session.set_config_option(key, text == "true")
    elif isinstance(option, v1.SessionConfigSelect):
        await session.set_config_option(key, _match(f"--set {key}", text, _choices(option)))
    else:
        names = ", ".join(option.id for option in options) or "none"
        raise ConfigError(f"--set {key}: this agent has no such option", hint=f"its options: {names}")


def _of_category(session: Session, category: str) -> v1.SessionConfigSelect | None:
    """Return the option for the mode or the model. Of several of a category, the one with its name is used."""
    found = [
        option
        for option in session.state.config_options
        if isinstance(option, v1.SessionConfigSelect) and option.category == category
    ]
    return next((option for option in found if option.id == category), found[0] if found else None)


def _choices(option: v1.SessionConfigSelect) -> list[OfferedValue]:
    return list(_flat(option.options))


def _flat(options: Sequence[object]) -> Iterable[OfferedValue]:
    for entry in options:
        if isinstance(entry, v1.SessionConfigSelectGroup):
            yield from _flat(entry.options)
        elif isinstance(entry, v1.SessionConfigSelectOption):
            yield OfferedValue(entry.value, entry.name)


def _match(flag: str, wanted: str, choices: Sequence[OfferedValue]) -> str:
    """Return the offered value that matches: by value, else by name in any case, else by the fragment of a URL."""
    spellings: tuple[Callable[[OfferedValue], bool], ...] = (
        lambda choice: choice.value == wanted,
        lambda choice: choice.name.lower() == wanted.lower(),
        lambda choice: "://" in choice.value and choice.value.rpartition("#")[2] == wanted,
    )
    for is_meant in spellings:
        found = [choice.value for choice in choices if is_meant(choice)]
        if len(found) == 1:
            return found[0]
    known = ", ".join(choice.value for choice in choices) or "none"
    raise ConfigError(f"{flag} {wanted}: this agent does not offer it", hint=f"it offers: {known}")

"""Model, mode and options of the agent, chosen from lists, and remembered for new sessions of the agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dragoman.errors import DragomanError
from dragoman.settings.documents import did_you_mean
from dragoman.text.terminal import fit
from dragoman.text.visible import label
from dragoman.tui.preferences import MODE, agent_key
from dragoman.tui.screen.picker import Picker, PickRow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dragoman.client import Session
    from dragoman.tui.screen.app import TerminalApp
    from dragoman.view.rails import RailLine


class OptionValue(NamedTuple):
    """A value of an option that can be chosen."""

    option: str
    """The id of the option; `MODE` for a mode that is not an option."""
    value: str | bool
    name: str
    group: str = ""
    description: str = ""
    is_current: bool = False


def next_mode(app: TerminalApp, argument: str = "") -> None:
    """Go to the next mode, or to the one that is named."""
    values = _modes(app)
    if not values:
        app.note("the agent has no modes")
    elif argument:
        _use_named(app, values, argument, "mode")
    else:
        current = next((place for place, each in enumerate(values) if each.is_current), -1)
        app.start(use_value(app, values[(current + 1) % len(values)]))


def choose_model(app: TerminalApp, argument: str = "") -> None:
    """Choose the model, or take the one that is named. An agent without a choice of models shows its options."""
    values = [each for option in _options_of(app, "model") for each in values_of(option)]
    if argument and values:
        _use_named(app, values, argument, "model")
    elif values:
        _show(app, "model", values)
    else:
        choose_option(app)


def choose_option(app: TerminalApp, argument: str = "") -> None:
    """Choose a mode or a value of an option."""
    values = [] if _options_of(app, "mode") else _modes(app)
    for option in app.talk.state.config_options:
        values += values_of(option, with_name=True)
    if not values:
        app.note("the agent has neither modes nor options")
        return
    _show(app, "modes and options", values)


async def use_value(app: TerminalApp, chosen: OptionValue) -> None:
    """Set a value in the session, and remember it for the agent. Raises: RequestError, ConnectionClosed."""
    talk = app.talk
    if chosen.option == MODE:
        await talk.set_mode(str(chosen.value))
    else:
        await talk.set_option(chosen.option, chosen.value)
    agent = agent_key(talk.agent)
    if agent and app.preferences is not None:
        app.preferences.remember(agent, chosen.option, chosen.value)
        app.note(f"{label(chosen.name, 40)}; new sessions of {label(agent, 20)} begin with it (/settings forgets it)")


def preparer(app: TerminalApp) -> Callable[[Session, str], Any]:
    """What sets the remembered values in a new session, before its first prompt."""

    async def prepare(session: Session, agent: str) -> None:
        wanted = {} if app.preferences is None else app.preferences.of(agent_key(agent))
        for option, value in wanted.items():
            try:
                await _prepare(session, option, value)
            except DragomanError as error:
                app.note(f"{option} = {value} of an earlier session was not taken: {error}")

    return prepare


async def _prepare(session: Session, option: str, value: str | bool) -> None:
    state = session.state
    if option == MODE:
        known = [] if state.modes is None else [mode.id for mode in state.modes.available_modes]
        if value in known and value != state.mode:
            await session.set_mode(str(value))
        return
    for each in state.config_options:
        offered = [found.value for found in values_of(each)]
        if getattr(each, "id", None) == option and value in offered and value != getattr(each, "current_value", None):
            await session.set_config_option(option, value)


def values_of(option: Any, *, with_name: bool = False) -> list[OptionValue]:
    """The values of an option, with their groups; a switch is on or off."""
    id, title = str(getattr(option, "id", "")), str(getattr(option, "name", ""))
    current = getattr(option, "current_value", None)
    if isinstance(current, bool):
        return [
            OptionValue(id, value, name, title, "", current is value) for value, name in ((True, "on"), (False, "off"))
        ]
    found: list[OptionValue] = []
    for each in getattr(option, "options", None) or ():
        inner = getattr(each, "options", None)
        group = str(each.name) if inner is not None else ""
        heading = " · ".join(filter(None, [title if with_name else "", group]))
        for value in inner if inner is not None else (each,):
            note = value.description if isinstance(value.description, str) else ""
            found.append(OptionValue(id, value.value, value.name, heading, note, value.value == current))
    return found


def _options_of(app: TerminalApp, category: str) -> list[Any]:
    return [each for each in app.talk.state.config_options if getattr(each, "category", None) == category]


def _modes(app: TerminalApp) -> list[OptionValue]:
    """The modes. Many agents offer them twice, the second time as an option; the host keeps both in step."""
    state = app.talk.state
    if state.modes is None or not state.modes.available_modes:
        return [each for option in _options_of(app, "mode") for each in values_of(option)]
    return [
        OptionValue(
            *(MODE, mode.id, mode.name, "mode", mode.description if isinstance(mode.description, str) else ""),
            mode.id == state.mode,
        )
        for mode in state.modes.available_modes
    ]


def _use_named(app: TerminalApp, values: Sequence[OptionValue], name: str, what: str) -> None:
    wanted = name.casefold()
    same = [each for each in values if wanted in (str(each.value).casefold(), each.name.casefold())]
    same = same or [each for each in values if wanted in f"{each.value} {each.name}".casefold()]
    if len({each.value for each in same}) == 1:
        app.start(use_value(app, same[0]))
    elif same:
        app.note(f"several are like {label(name, 30)}: {', '.join(label(each.name, 20) for each in same[:5])}")
    else:
        near = did_you_mean(name, [each.name for each in values] + [str(each.value) for each in values])
        app.note(f"there is no {what} {label(name, 30)}{f'; {label(near, 60)}' if near else ''}")


def _show(app: TerminalApp, title: str, values: Sequence[OptionValue]) -> None:
    rows: list[PickRow] = []
    group = ""
    agent = agent_key(app.talk.agent)
    remembered = {} if app.preferences is None else app.preferences.of(agent)
    space = min(44, max(20, app.size.width // 2 - 8))
    for each in values:
        if each.group != group:
            group = each.group
            rows.append(PickRow(((f" {label(group, 60)}", "bold"),), is_heading=True))
        mark = app.glyphs.done if each.is_current else " "
        kept = " (remembered)" if remembered.get(each.option) == each.value else ""
        more = f" {label(each.description, max(10, app.size.width - space - 20), '')}{kept}"
        line: RailLine = ((f"{mark} ", "good"), (fit(label(each.name, 60), space), ""), (more, "dim"))
        search = f"{each.name} {each.value} {each.group} {each.description}"
        rows.append(PickRow(line, each, search, is_current=each.is_current))
    footer = "type to filter · Enter use, and remember for this agent · Esc back"
    picker = Picker(
        f"{title} of {label(agent, 30)}" if agent else title,
        rows,
        right=f"{len(values)} values",
        footer=footer,
        glyphs=app.glyphs,
    )

    def use(chosen: Any) -> None:
        if chosen is not None:
            app.start(use_value(app, chosen))

    app.show_picker(picker, use)

"""Model, mode and options of the agent, chosen from lists; the harmless ones are remembered for its new sessions.

Loaded with the first of these lists: most sessions open none.
"""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Any

from dragoman.settings.documents import did_you_mean
from dragoman.text.terminal import fit
from dragoman.text.visible import label
from dragoman.tui.mode_gate import is_remembered, none_follows
from dragoman.tui.option_values import all_values, models_of, modes_of, named
from dragoman.tui.remembered_values import set_and_remember
from dragoman.tui.screen.header import cost_sentence
from dragoman.tui.screen.input.input_hint import note
from dragoman.tui.screen.picker import Picker, PickRow
from dragoman.tui.start.preferences import agent_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.tui.option_values import OptionValue
    from dragoman.tui.screen.app import TerminalApp
    from dragoman.view.rails import RailLine


def next_mode(app: TerminalApp, argument: str = "") -> None:
    """Go to the next mode, or to the one that is named."""
    values = modes_of(app.conversation.state)
    if not values:
        app.note(_none(app, "the agent has no modes"))
    elif argument:
        _use_named(app, values, argument, "mode")
    else:
        following = app.modes.next(app.conversation)
        if following is None:
            app.note(none_follows(values))
        else:
            app.start(use_value(app, following))


def choose_model(app: TerminalApp, argument: str = "") -> None:
    """Choose the model, or take the one that is named. An agent without a choice of models shows its options."""
    values = models_of(app.conversation.state)
    if argument and values:
        _use_named(app, values, argument, "model")
    elif values:
        _show(app, "model", values)
    else:
        choose_option(app)


def choose_option(app: TerminalApp, argument: str = "") -> None:
    """Choose a mode or a value of an option."""
    values = all_values(app.conversation.state)
    if not values:
        app.note(_none(app, "the agent has neither modes nor options"))
        return
    _show(app, "modes and options", values)


def show_cost(app: TerminalApp, argument: str = "") -> None:
    """Show what the session cost so far."""
    note(app, cost_sentence(app.conversation.state))


def _none(app: TerminalApp, text: str) -> str:
    """Return why there is nothing to choose: an agent that has not answered yet may still offer something."""
    return text if app.conversation.phase == "ready" else "there is nothing to choose before the agent is ready"


async def use_value(app: TerminalApp, chosen: OptionValue) -> None:
    """Set a value in the session, and remember it if it is harmless. Raises: RequestError, ConnectionClosed."""
    question = app.modes.question(app.conversation, chosen)
    if question:
        _confirm(app, question, chosen)
        return
    await set_and_remember(app.conversation, app.preferences, chosen, app.note)


def _confirm(app: TerminalApp, question: str, chosen: OptionValue) -> None:
    """Ask once a session before the agent may act without asking; the answer that changes nothing comes first."""
    lines = wrap(question, max(20, app.size.width - 4))
    rows = [
        *(PickRow((("  ", ""), (line, "warn")), is_heading=True) for line in lines),
        PickRow((("  no, stay as it is", ""),), value=None, search="no", is_current=True),
        PickRow(((f"  yes, {label(chosen.name, 30)} for this session", "warn"),), value=chosen, search="yes"),
    ]

    def answered(confirmed: Any) -> None:
        if confirmed is not None:
            app.modes.confirm(app.conversation, chosen)
            app.start(use_value(app, chosen))

    footer = "Enter choose · Esc back"
    app.show_picker(Picker("confirm", rows, footer=footer, glyphs=app.glyphs), answered)


def _use_named(app: TerminalApp, values: Sequence[OptionValue], name: str, what: str) -> None:
    same = named(values, name)
    if len({value.value for value in same}) == 1:
        app.start(use_value(app, same[0]))
    elif same:
        app.note(f"several are like {label(name, 30)}: {', '.join(label(value.name, 20) for value in same[:5])}")
    else:
        near = did_you_mean(name, [value.name for value in values] + [str(value.value) for value in values])
        app.note(f"there is no {what} {label(name, 30)}{f'; {label(near, 60)}' if near else ''}")


def _show(app: TerminalApp, title: str, values: Sequence[OptionValue]) -> None:
    rows: list[PickRow] = []
    group = ""
    agent = agent_key(app.conversation.agent)
    remembered = {} if app.preferences is None else app.preferences.of(agent)
    space = min(44, max(20, app.size.width // 2 - 8))
    for value in values:
        if value.group != group:
            group = value.group
            rows.append(PickRow(((f" {label(group, 60)}", "bold"),), is_heading=True))
        mark = app.glyphs.done if value.is_current else " "
        mark_kept = " (remembered)" if remembered.get(value.option) == value.value else ""
        more = f" {label(value.description, max(10, app.size.width - space - 20), '')}{mark_kept}"
        line: RailLine = ((f"{mark} ", "good"), (fit(label(value.name, 60), space), ""), (more, "dim"))
        search = f"{value.name} {value.value} {value.group} {value.description}"
        rows.append(PickRow(line, value, search, is_current=value.is_current))
    kept = any(is_remembered(value) for value in values)
    use_words = "Enter use, and remember for this agent" if kept else "Enter use, for this session"
    footer = f"type to filter · {use_words} · Esc back"
    picker = Picker(
        f"{title} of {label(agent, 30)}" if agent else title,
        rows,
        right=f"{len(values)} value{'' if len(values) == 1 else 's'}",
        footer=footer,
        glyphs=app.glyphs,
    )

    def use(chosen: Any) -> None:
        if chosen is not None:
            app.start(use_value(app, chosen))

    app.show_picker(picker, use)

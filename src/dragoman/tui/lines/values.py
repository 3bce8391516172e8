"""Mode, model, options and settings in lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.settings.documents import did_you_mean
from dragoman.text.visible import label
from dragoman.tui.option_values import known_options, models_of, modes_of, named, values_of
from dragoman.tui.remembered_values import set_and_remember
from dragoman.tui.start.preferences import agent_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.tui.lines.client import LineClient
    from dragoman.tui.option_values import OptionValue


async def choose_mode(client: LineClient, words: str) -> None:
    """List the modes, or use one: by its number or its name. Raises: RequestError, ConnectionClosed."""
    await _choose(client, modes_of(client.talk.state), words, "mode")


async def choose_model(client: LineClient, words: str) -> None:
    """List the models, or use one: by its number or its name. Raises: RequestError, ConnectionClosed."""
    await _choose(client, models_of(client.talk.state), words, "model")


async def set_option(client: LineClient, words: str) -> None:
    """List the options, or set one to a value, by number or name. Raises: RequestError, ConnectionClosed."""
    options = {option.id: option for option in known_options(client.talk.state)}
    key, _, value = words.partition(" ")
    if not options:
        client.write("note: the agent has no options")
    elif not key:
        for id, option in options.items():
            now = next((value.name for value in values_of(option) if value.is_current), "")
            client.write(f"{label(id, 40)}: {label(now, 40)} ({label(option.name, 60)})")
        client.write("note: /options KEY lists the values of one, /options KEY VALUE sets it")
    elif key not in options:
        client.write(f"note: the options are {label(', '.join(options), 200)}")
    else:
        await _choose(client, values_of(options[key]), value.strip(), key)


async def _choose(client: LineClient, values: Sequence[OptionValue], words: str, what: str) -> None:
    if not values:
        client.write(f"note: the agent offers no choice of the {label(what, 40)}")
    elif not words:
        for number, offer in enumerate(values, 1):
            more = f", {label(offer.description, 80)}" if offer.description else ""
            now = ", chosen" if offer.is_current else ""
            client.write(f"{number}: {label(offer.name, 40)} ({label(str(offer.value), 40)}){now}{more}")
        command = what if what in ("mode", "model") else "options"
        ours = "dragoman:" if any(theirs.name == command for theirs in client.talk.state.commands) else ""
        key = "" if command == what else f" {label(what, 40)}"
        client.write(f"note: /{ours}{command}{key} N, or a name, uses one")
    else:
        await _use(client, values, words, what)


async def _use(client: LineClient, values: Sequence[OptionValue], words: str, what: str) -> None:
    same = named(values, words)
    is_number = words.isascii() and words.isdigit() and 1 <= int(words[:6]) <= len(values)
    if not any(words == offer.value for offer in same) and is_number:
        same = [values[int(words) - 1]]
    if len({offer.value for offer in same}) == 1:
        await set_and_remember(client.talk, client.preferences, same[0], client.note)
    elif same:
        names = ", ".join(label(offer.name, 30) for offer in same[:5])
        client.write(f"note: several are like {label(words, 30)}: {names}")
    else:
        near = did_you_mean(words, [value.name for value in values] + [str(value.value) for value in values])
        client.write(f"note: there is no {label(what, 40)} {label(words, 30)}{f'; {label(near, 60)}' if near else ''}")


async def show_settings(client: LineClient, words: str) -> None:
    """Write the settings of this client, where they come from, and what is remembered. Raises: ConfigError."""
    from dragoman.settings.file import read_settings_file, user_file
    from dragoman.settings.places import config_dir
    from dragoman.settings.ui import UI_SETTINGS

    path = user_file(config_dir())
    ui = read_settings_file(path, "user").ui
    client.write(f"note: the member ui of {label(str(path), 200)}")
    for setting in UI_SETTINGS:
        value = getattr(ui, setting.name)
        client.write(f"{setting.name}: {'as the terminal needs it' if value is None else value} ({setting.help})")
    for agent, remembered in client.preferences.all().items():
        for option, value in remembered.items():
            client.write(f"remembered: {label(agent, 30)}, {label(option, 30)} = {label(str(value), 40)}")
    if words.startswith("forget "):
        option = words.removeprefix("forget ").strip()
        client.preferences.forget(agent_key(client.talk.agent), option)
        client.write(f"note: {label(option, 40)} is not remembered for this agent")
    else:
        client.write("note: /settings forget OPTION does not remember one of this agent any more")

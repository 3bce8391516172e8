"""What the slash commands of the line modes do. Loaded with the first of them; most sessions need few.

Each function gets the client and the words behind the command, and writes lines. Review, rewind and export are in
`changes.py`.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final

from dragoman.errors import DragomanError
from dragoman.settings.documents import did_you_mean
from dragoman.text.colour import YELLOW
from dragoman.text.terminal import plain, size
from dragoman.text.visible import label
from dragoman.tui.attachments import written_out
from dragoman.tui.clipboard import copy
from dragoman.tui.copied_answer import copied_sentence, last_answer
from dragoman.tui.lines.commands import client_command
from dragoman.tui.local_host.session_rows import in_order, is_gone, searched_text
from dragoman.tui.option_values import known_options, models_of, modes_of, named, values_of
from dragoman.tui.remembered_values import set_and_remember
from dragoman.tui.screen.header import cost_sentence
from dragoman.tui.start.preferences import agent_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dragoman.tui.lines.client import LineClient
    from dragoman.tui.lines.commands import LineFunction
    from dragoman.tui.option_values import OptionValue
    from dragoman.tui.values import ListedSession, TypedPrompt

_MOST_CHARACTERS: Final = 1 << 20
_SHOWN_MESSAGES: Final = 20
_PLACE: Final = 50  # of a longer path the end says more


# The turn that runs, and the prompts that wait


async def stop(client: LineClient, words: str) -> None:
    """Stop the turn that runs."""
    if not client.interrupt():
        client.write("note: nothing runs")


async def list_queue(client: LineClient, words: str) -> None:
    """List the prompts that wait."""
    if not client.conversation.queued:
        client.write("note: nothing waits")
        return
    for number, prompt in enumerate(client.conversation.queued, 1):
        client.write(
            f"{number}: {label(prompt.text, 100)}{' (passed to the turn that runs)' if prompt.is_steered else ''}"
        )
    client.write("note: /edit N changes one, /move N TO changes the order, /drop N takes one back")


async def drop(client: LineClient, words: str) -> None:
    """Take a prompt back."""
    prompt = _chosen(client, words, "/drop takes the number of a prompt in /queue")
    if prompt is not None:
        taken = client.conversation.take_back(prompt)
        client.write("note: taken back" if taken else f"note: {prompt.place_words}")


async def edit(client: LineClient, words: str) -> None:
    """Change the text of a prompt; it keeps its place. Without a text it goes back into the input, if there is one."""
    number, _, text = words.partition(" ")
    prompt = _chosen(client, number, "/edit takes the number of a prompt in /queue, and its new text")
    if prompt is None:
        return
    place = client.conversation.queued.index(prompt)
    text = text.strip()
    if not text and not client.terminal.has_input:
        client.write("note: type the new text behind the number: /edit N TEXT")
    elif not client.conversation.take_back(prompt):
        client.write(f"note: {prompt.place_words}")
    elif text:
        sent = await client.prompts.send(text)
        order = [prompt for prompt in client.conversation.queued if prompt is not sent]
        order.insert(place, sent)
        await client.conversation.reorder(order)
        client.write(f"note: changed: {label(text, 100)}")
    else:
        _ = client.terminal.give_back(prompt.text)
        client.write("note: taken back into the input")


async def move(client: LineClient, words: str) -> None:
    """Give a prompt another place."""
    number, _, to = words.partition(" ")
    prompt = _chosen(client, number, "/move takes the number of a prompt in /queue, and the number it gets")
    if prompt is None:
        return
    order = client.conversation.queued
    if not (to.isascii() and to.isdigit()) or not 1 <= int(to[:6]) <= len(order):
        client.write(f"note: the places are 1 to {len(order)}")
        return
    order.remove(prompt)
    order.insert(int(to) - 1, prompt)
    await client.conversation.reorder(order)
    await list_queue(client, "")


async def steer(client: LineClient, words: str) -> None:
    """Pass a text to the turn that runs, where the agent takes it."""
    if not words:
        client.write("note: /steer takes what the agent should know")
    elif not client.conversation.is_running:
        _ = await client.prompts.send(words)
    elif client.conversation.accepts.steer:
        _ = client.conversation.steer(words, written_out(words, client.prompts.chips, _MOST_CHARACTERS))
        client.write("note: passed to the turn that runs; it is the next prompt if the agent does not take it")
    else:
        _ = client.terminal.give_back(words)
        client.write("note: this agent takes no text while it works; type it as a prompt after /stop, or let it wait")


def _chosen(client: LineClient, number: str, otherwise: str) -> TypedPrompt | None:
    waiting = client.conversation.queued
    if not (number.isascii() and number.isdigit()) or not 1 <= int(number[:6]) <= len(waiting):
        client.write(f"note: {otherwise}")
        return None
    return waiting[int(number) - 1]


# More of the conversation than the lines show


async def copy_answer(client: LineClient, words: str) -> None:
    """Copy the last answer; with `all`, the conversation as Markdown."""
    state = client.conversation.state
    if words == "all":
        from dragoman.view.build import blocks_of
        from dragoman.view.markdown import to_markdown

        text = to_markdown(blocks_of(state), state.title or "Conversation") if state.timeline else ""
    else:
        text = last_answer(state)
    if text:
        client.note(copied_sentence(await copy(text, os.environ, client.terminal.write_sequence), text))
    else:
        client.write("note: there is nothing to copy")


async def paste(client: LineClient, words: str) -> None:
    """Attach the image in the clipboard of this machine."""
    from dragoman.tui.attachments import image_chip
    from dragoman.tui.clipboard import paste_image

    if not client.conversation.accepts.image:
        client.write("note: the agent does not take images")
        return
    image = await paste_image(os.environ)
    if isinstance(image, str):
        client.note(image)
    else:
        client.prompts.attach(image_chip(*image, client.prompts.chips))


async def show_cost(client: LineClient, words: str) -> None:
    """Write what the session cost so far."""
    client.write(f"note: {cost_sentence(client.conversation.state)}")


async def show_thought(client: LineClient, words: str) -> None:
    """Write the last thought of the agent whole."""
    text = last_answer(client.conversation.state, "thought")
    if not text:
        client.write("note: the agent sent no thought")
        return
    client.write("thought:", *(f"  {line}" for line in plain(text).split("\n")))


async def show_traffic(client: LineClient, words: str) -> None:
    """Write the last messages between host and agent. Raises: RequestError, ConnectionClosed."""
    from dragoman.tui.reporting.traffic import METHOD, TrafficModel, is_broken, kind_of, what_of

    conversation, model = client.conversation, TrafficModel()
    if conversation.remote is None or conversation.session_id is None:
        raise DragomanError("there is no session to look at")
    answer = await conversation.remote.request(
        METHOD, {"sessionId": conversation.session_id, "wait": False, **model.asked()}
    )
    _ = await asyncio.to_thread(model.feed, answer)
    count = min(int(words[:4]), 1_000) if words.isascii() and words.isdigit() else _SHOWN_MESSAGES
    for row in list(model.rows)[-count:] if count else []:
        mark = "broken rule, " if is_broken(row) else ""
        parts = [
            model.clock(row),
            kind_of(row),
            label(what_of(row), 80),
            f"{size(model.size_bytes(row)).strip()} bytes",
        ]
        client.write(f"{model.number(row)}: {mark}{', '.join(parts)}")
    if not model.rows:
        client.write("note: there are no messages yet")


# Sessions


async def list_sessions(client: LineClient, words: str) -> None:
    """List the sessions of the folder; with `all`, or if it has none, of every folder. Raises: RequestError."""
    rows = in_order(await client.conversation.sessions())
    here = [row for row in rows if row.folder == client.conversation.folder]
    client.rows = rows if words == "all" or not here else here
    if not rows:
        client.write("note: there are no sessions")
        return
    _write_rows(client)
    left = len(rows) - len(client.rows)
    more = f"; /sessions all shows {left} of other folders" if left else ""
    client.write(f"note: /open N goes to one{more}")


async def resume_session(client: LineClient, words: str) -> None:
    """Go on with an earlier session: by its number in the list, or by words that only it has; otherwise list them.

    The list is the last one, filtered by earlier words or not, so that a number means what the user sees.
    Raises: RequestError.
    """
    if words.isascii() and words.isdigit() and client.rows:
        await open_session(client, words)
        return
    rows = in_order([row for row in await client.conversation.sessions() if not is_gone(row)])
    rows = [row for row in rows if row.session_id != client.conversation.session_id]
    looked_for = words.casefold().split()
    like = [row for row in rows if all(word in searched_text(row).casefold() for word in looked_for)]
    here = [row for row in like if row.folder == client.conversation.folder]
    like = here or like
    if not like:
        client.write(
            f"note: no session is like {label(words, 60)}" if rows and words else "note: there is no other session"
        )
    elif words and len(like) == 1:
        await client.conversation.switch(like[0])
    else:
        client.rows = like
        _write_rows(client)
        client.write("note: /resume N goes on with one, /resume WORDS with the one that has these words")


def _write_rows(client: LineClient) -> None:
    for number, row in enumerate(client.rows, 1):
        client.write(f"{number}: {', '.join(_row_parts(row, client.conversation.folder))}")


def _row_parts(row: ListedSession, folder: str) -> Iterator[str]:
    yield row.word
    yield label(row.shown_name, 60)
    yield label(row.agent, 30)
    if row.folder != folder:
        home = os.path.expanduser("~")
        place = f"~{row.folder[len(home) :]}" if row.folder.startswith(f"{home}/") else row.folder
        yield label(place if len(place) <= _PLACE else f"…{place[-_PLACE:]}", _PLACE + 1)
    if row.steps_total:
        yield f"step {row.steps_done} of {row.steps_total}"
    if row.questions:
        yield f"{row.questions} question{'s' if row.questions != 1 else ''}"
    if row.cost:
        yield label(row.cost, 20)


async def open_session(client: LineClient, words: str) -> None:
    """Go to a session of the list. Raises: RequestError."""
    if not client.rows:
        client.rows = in_order(await client.conversation.sessions())
    if not (words.isascii() and words.isdigit()) or not 1 <= int(words[:6]) <= len(client.rows):
        client.write("note: /open takes the number of a session in /sessions")
        return
    await client.conversation.switch(client.rows[int(words) - 1])


async def begin_session(client: LineClient, words: str) -> None:
    """Begin a session, with another agent if one is named."""
    await client.conversation.switch(None, agent=words or None)


async def retry(client: LineClient, words: str) -> None:
    """Try again after a failure."""
    client.conversation.retry()


# Mode, model, options and settings


async def choose_mode(client: LineClient, words: str) -> None:
    """List the modes, or use one: by its number or its name. Raises: RequestError, ConnectionClosed."""
    await _choose(client, modes_of(client.conversation.state), words, "mode")


# Mode, model, options and settings


async def choose_model(client: LineClient, words: str) -> None:
    """List the models, or use one: by its number or its name. Raises: RequestError, ConnectionClosed."""
    await _choose(client, models_of(client.conversation.state), words, "model")


async def set_option(client: LineClient, words: str) -> None:
    """List the options, or set one to a value, by number or name. Raises: RequestError, ConnectionClosed."""
    options = {option.id: option for option in known_options(client.conversation.state)}
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
        theirs = [taken.name for taken in client.conversation.state.commands]
        ours = "dragoman:" if client_command(command, theirs) is None else ""
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
        question = client.modes.question(client.conversation, same[0])
        if question:
            # The same command again is the confirmation: there is no dialog in lines.
            client.modes.confirm(client.conversation, same[0])
            client.write(client.terminal.paint(f"warning: {question}; type the same again to choose it", YELLOW))
            return
        await set_and_remember(client.conversation, client.preferences, same[0], client.note)
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
        client.preferences.forget(agent_key(client.conversation.agent), option)
        client.write(f"note: {label(option, 40)} is not remembered for this agent")
    else:
        client.write("note: /settings forget OPTION does not remember one of this agent any more")


FUNCTIONS: Final[Mapping[str, LineFunction]] = {
    "stop": stop,
    "queue": list_queue,
    "edit": edit,
    "move": move,
    "drop": drop,
    "steer": steer,
    "copy": copy_answer,
    "paste": paste,
    "cost": show_cost,
    "thought": show_thought,
    "traffic": show_traffic,
    "sessions": list_sessions,
    "open": open_session,
    "resume": resume_session,
    "new": begin_session,
    "retry": retry,
    "mode": choose_mode,
    "model": choose_model,
    "options": set_option,
    "settings": show_settings,
}
"""The functions of this module by the names of their commands."""

"""The prompts that wait, and the turn that runs: stop, list, change, move, take back, steer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.text.visible import label
from dragoman.tui.attachments import written_out

if TYPE_CHECKING:
    from dragoman.tui.lines.client import LineClient
    from dragoman.tui.values import TypedPrompt

_MOST_CHARACTERS: Final = 1 << 20


async def stop(client: LineClient, words: str) -> None:
    """Stop the turn that runs."""
    if not await client.interrupt():
        client.write("note: nothing runs")


async def list_queue(client: LineClient, words: str) -> None:
    """List the prompts that wait."""
    if not client.talk.queued:
        client.write("note: nothing waits")
        return
    for number, prompt in enumerate(client.talk.queued, 1):
        client.write(
            f"{number}: {label(prompt.text, 100)}{' (passed to the turn that runs)' if prompt.is_steered else ''}"
        )
    client.write("note: /edit N changes one, /move N TO changes the order, /drop N takes one back")


async def drop(client: LineClient, words: str) -> None:
    """Take a prompt back."""
    prompt = _chosen(client, words, "/drop takes the number of a prompt in /queue")
    if prompt is not None:
        taken = client.talk.take_back(prompt)
        client.write("note: taken back" if taken else f"note: {prompt.place_words}")


async def edit(client: LineClient, words: str) -> None:
    """Change the text of a prompt; it keeps its place. Without a text it goes back into the input, if there is one."""
    number, _, text = words.partition(" ")
    prompt = _chosen(client, number, "/edit takes the number of a prompt in /queue, and its new text")
    if prompt is None:
        return
    place = client.talk.queued.index(prompt)
    text = text.strip()
    if not text and not client.terminal.has_input:
        client.write("note: type the new text behind the number: /edit N TEXT")
    elif not client.talk.take_back(prompt):
        client.write(f"note: {prompt.place_words}")
    elif text:
        sent = await client.prompts.send(text)
        order = [prompt for prompt in client.talk.queued if prompt is not sent]
        order.insert(place, sent)
        await client.talk.reorder(order)
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
    order = client.talk.queued
    if not (to.isascii() and to.isdigit()) or not 1 <= int(to[:6]) <= len(order):
        client.write(f"note: the places are 1 to {len(order)}")
        return
    order.remove(prompt)
    order.insert(int(to) - 1, prompt)
    await client.talk.reorder(order)
    await list_queue(client, "")


async def steer(client: LineClient, words: str) -> None:
    """Pass a text to the turn that runs, where the agent takes it."""
    if not words:
        client.write("note: /steer takes what the agent should know")
    elif not client.talk.is_running:
        _ = await client.prompts.send(words)
    elif client.talk.accepts.steer:
        _ = client.talk.steer(words, written_out(words, client.prompts.chips, _MOST_CHARACTERS))
        client.write("note: passed to the turn that runs; it is the next prompt if the agent does not take it")
    else:
        _ = client.terminal.give_back(words)
        client.write("note: this agent takes no text while it works; type it as a prompt, and /stop runs it at once")


def _chosen(client: LineClient, number: str, otherwise: str) -> TypedPrompt | None:
    waiting = client.talk.queued
    if not (number.isascii() and number.isdigit()) or not 1 <= int(number[:6]) <= len(waiting):
        client.write(f"note: {otherwise}")
        return None
    return waiting[int(number) - 1]

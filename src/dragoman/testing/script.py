"""The script: what the scripted agent does when the first word of a prompt is a keyword.

Owns one small function for each feature of the protocol, and the list of what each shows. These functions use `Turn`
like any agent does, so they are examples as well.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from dragoman.errors import CapabilityError, RequestError
from dragoman.schema import Unknown, v1
from dragoman.testing.memory import PIXEL, WAV

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeAlias

    from dragoman.agent import Turn

    Action: TypeAlias = Callable[[Turn, str], Awaitable[str | None]]


class Keyword(NamedTuple):
    """A keyword of the script: its function, a description, and the updates and methods that it sends."""

    action: Action
    about: str
    updates: frozenset[str]
    methods: frozenset[str]


KEYWORDS: Final[dict[str, Keyword]] = {}
"""All keywords by name. A prompt that does not begin with one of them is echoed."""


def _shows(word: str, *, updates: str = "", methods: str = "") -> Callable[[Action], Action]:
    def register(action: Action) -> Action:
        about = (action.__doc__ or "").strip().partition("\n")[0]
        KEYWORDS[word] = Keyword(action, about, frozenset(updates.split()), frozenset(methods.split()))
        return action

    return register


async def play(turn: Turn) -> str | None:
    """Answer the prompt: its first word chooses the keyword, the rest is the argument."""
    word, _, rest = turn.text.strip().partition(" ")
    keyword = KEYWORDS.get(word.lower())
    if keyword is None:
        await _echo(turn, turn.text)
        return None
    return await keyword.action(turn, rest.strip())


async def _echo(turn: Turn, text: str) -> None:
    kinds = [type(block).__name__ for block in turn.prompt if not isinstance(block, v1.TextContent)]
    await turn.say(text + (f" [with {', '.join(kinds)}]" if kinds else ""))


@_shows("help", updates="agent_message_chunk")
async def _help(turn: Turn, rest: str) -> None:
    """List the keywords."""
    await turn.say("This agent is scripted. Send one of these words; any other prompt is echoed:\n")
    for word, keyword in KEYWORDS.items():
        await turn.say(f"- `{word}`: {keyword.about}\n")


@_shows("say", updates="agent_message_chunk")
async def _say(turn: Turn, rest: str) -> None:
    """Say the rest of the prompt, a word at a time, as one message with an id."""
    message_id = f"message-{os.urandom(4).hex()}"
    for word in rest.split(" "):
        await turn.say(word + " ", message_id=message_id)


@_shows("user", updates="user_message_chunk")
async def _user(turn: Turn, rest: str) -> None:
    """Send a piece of a user's message, as a replay does."""
    await turn.update(v1.UserMessageChunk(v1.TextContent(rest or "the user's text")))


@_shows("think", updates="agent_thought_chunk agent_message_chunk")
async def _think(turn: Turn, rest: str) -> None:
    """Send thoughts, then a message."""
    await turn.think(f"The user wants {rest or 'me to think'}. ")
    await turn.think("Thinking about it.")
    await turn.say("Thought about it.")


@_shows("plan", updates="plan")
async def _plan(turn: Turn, rest: str) -> None:
    """Make a plan of three steps and work it off."""
    steps = ("Read", "Change", "Test")
    for done in range(len(steps) + 1):
        await turn.plan(
            (step, "completed" if n < done else "in_progress" if n == done else "pending")
            for n, step in enumerate(steps)
        )


@_shows("tool", updates="tool_call tool_call_update")
async def _tool(turn: Turn, rest: str) -> None:
    """Run a tool call from pending to completed, with a location, input and output."""
    readme = turn.session.path("README.md")
    async with turn.tool("Reading README.md", kind="read", locations=[readme], raw_input={"path": readme}) as call:
        await call.text("# A project")
        await call.update(raw_output={"lines": 1})


@_shows("fail", updates="tool_call tool_call_update agent_message_chunk")
async def _fail(turn: Turn, rest: str) -> None:
    """Run a tool call that fails."""
    try:
        async with turn.tool("Dividing by zero", kind="think"):
            _ = 1 / 0
    except ZeroDivisionError:
        await turn.say("That cannot be done.")


@_shows("diff", updates="tool_call tool_call_update")
async def _diff(turn: Turn, rest: str) -> None:
    """Show the change of one file and a new file, without touching the disk."""
    async with turn.tool("Editing", kind="edit") as call:
        await call.diff("main.py", "print('hi')\n", "print('hello')\n")
        await call.diff("new.py", None, "pass\n")


@_shows(
    "terminal",
    updates="tool_call tool_call_update agent_message_chunk",
    methods="terminal/create terminal/wait_for_exit terminal/output terminal/release",
)
async def _terminal(turn: Turn, rest: str) -> None:
    """Run a shell line in a terminal and report how it ended."""
    line = rest or "echo one; echo two >&2"
    async with (
        turn.tool(f"Running `{line}`", kind="execute") as call,
        turn.terminal("/bin/sh", ["-c", line], output_byte_limit=10_000) as terminal,
    ):
        await call.show(terminal)
        status = await terminal.wait()
        output = await terminal.output()
        await turn.say(f"exit {status.exit_code} signal {status.signal}: {output.output}")


@_shows(
    "kill",
    updates="agent_message_chunk",
    methods="terminal/create terminal/kill terminal/wait_for_exit terminal/release",
)
async def _kill(turn: Turn, rest: str) -> None:
    """Start a command that would run for a minute, and kill it."""
    async with turn.terminal("/bin/sh", ["-c", "echo started; exec sleep 60"]) as terminal:
        await terminal.kill()
        status = await terminal.wait()
        await turn.say(f"killed: exit {status.exit_code} signal {status.signal}")


@_shows("fs", updates="agent_message_chunk", methods="fs/read_text_file fs/write_text_file")
async def _fs(turn: Turn, rest: str) -> None:
    """Write a file, read it back and read its second line."""
    path = turn.session.path(rest or "scripted.txt")
    await turn.write_file(path, "one\ntwo\nthree\n")
    everything = await turn.read_file(path)
    second = await turn.read_file(path, line=2, limit=1)
    await turn.say(f"{len(everything)} characters, line 2 is {second!r}")


@_shows("read", updates="agent_message_chunk", methods="fs/read_text_file")
async def _read(turn: Turn, rest: str) -> None:
    """Read the file named in the prompt and say what is in it, or why that failed."""
    try:
        await turn.say(await turn.read_file(rest))
    except RequestError as error:
        await turn.say(f"error {error.code}: {error.message}")


@_shows("permission", updates="tool_call tool_call_update agent_message_chunk", methods="session/request_permission")
async def _permission(turn: Turn, rest: str) -> None:
    """Ask for permission with all four kinds of option, and obey."""
    options = [
        v1.PermissionOption("allow", "Allow", "allow_once"),
        v1.PermissionOption("always", "Always allow", "allow_always"),
        v1.PermissionOption("reject", "Reject", "reject_once"),
        v1.PermissionOption("never", "Never allow", "reject_always"),
    ]
    name = rest or "everything"
    async with turn.tool(f"Deleting {name}", kind="delete", locations=[turn.session.path(name)], start=False) as call:
        permission = await call.ask(options)
        await turn.say(f"{'allowed' if permission.allowed else 'not allowed'} ({permission.option_id})")


@_shows(
    "tour",
    updates="agent_message_chunk agent_thought_chunk plan tool_call tool_call_update usage_update",
    methods="session/request_permission fs/write_text_file terminal/create terminal/wait_for_exit terminal/release",
)
async def _tour(turn: Turn, rest: str) -> None:
    """Show a whole turn: a plan, a tool call, a change that needs permission, a command that shows the result."""
    steps = ("Look at the greeting", "Make it friendlier", "See how it reads")
    path, old, new = turn.session.path("greeting.txt"), "Hello.\n", "Hello, world!\nNice to meet you.\n"

    async def plan(done: int) -> None:
        await turn.plan(
            [
                *((step, "completed") for step in steps[:done]),
                *((step, "in_progress") for step in steps[done : done + 1]),
                *((step, "pending") for step in steps[done + 1 :]),
            ]
        )

    await turn.think("This greeting is short. It can be improved.")
    await turn.say("I will make the greeting friendlier.")
    await plan(0)
    async with turn.tool("Read greeting.txt", kind="read", locations=[path]) as call:
        await call.text(old)
    await plan(1)
    async with turn.tool("Edit greeting.txt", kind="edit", locations=[path], start=False) as call:
        await call.diff(path, old, new)
        allowed = bool(await call.ask())
        if allowed:
            await turn.write_file(path, new)
    await plan(2)
    async with turn.tool("Run cat greeting.txt", kind="execute", raw_input={"command": "cat greeting.txt"}) as call:
        try:
            async with turn.terminal("cat", ["greeting.txt"], cwd=turn.session.cwd) as terminal:
                await call.show(terminal)
                await terminal.wait()
        except RequestError as error:
            await call.text(f"It was not run: {error.message}")
    await plan(3)
    await turn.usage(1_200, 200_000, (0.0125, "USD"))
    await turn.say("The greeting is friendlier now." if allowed else "You did not want that, so nothing has changed.")


@_shows("elicitation", updates="agent_message_chunk", methods="elicitation/create")
async def _elicitation(turn: Turn, rest: str) -> None:
    """Ask for a name and a colour with a form."""
    schema = v1.ElicitationSchema(
        title="About you",
        properties={
            "name": v1.StringPropertySchema(title="Name", min_length=1),
            "colour": v1.StringPropertySchema(title="Colour", enum=["red", "green"], default="red"),
            "age": v1.IntegerPropertySchema(title="Age", minimum=0),
            "subscribe": v1.BooleanPropertySchema(title="Subscribe", default=False),
        },
        required=["name"],
    )
    try:
        answer = await turn.elicit("Who are you?", schema)
    except CapabilityError:
        await turn.say("This client shows no forms.")
    else:
        await turn.say(
            f"{type(answer).__name__}: {answer.content if isinstance(answer, v1.AcceptElicitation) else None}"
        )


@_shows("url", updates="agent_message_chunk", methods="elicitation/create elicitation/complete")
async def _url(turn: Turn, rest: str) -> None:
    """Ask the user to visit a page, then report that the visit is over."""
    elicitation_id = f"visit-{os.urandom(4).hex()}"
    try:
        answer = await turn.elicit("Please look at this", url="https://example.org/", elicitation_id=elicitation_id)
    except CapabilityError:
        await turn.say("This client opens no pages.")
        return
    await turn.session.client.notify("elicitation/complete", v1.CompleteElicitationNotification(elicitation_id))
    await turn.say(type(answer).__name__)


@_shows("usage", updates="usage_update")
async def _usage(turn: Turn, rest: str) -> None:
    """Report how full the context is and what it cost."""
    await turn.usage(1_200, 200_000, (0.0125, "USD"))


@_shows("modes", updates="current_mode_update")
async def _modes(turn: Turn, rest: str) -> None:
    """Switch to the mode named in the prompt, by the agent's own decision."""
    await turn.mode(rest or "code")


@_shows("config", updates="config_option_update")
async def _config(turn: Turn, rest: str) -> None:
    """Send the complete list of config options again."""
    await turn.config_options(turn.session.options)


@_shows("commands", updates="available_commands_update")
async def _commands(turn: Turn, rest: str) -> None:
    """Offer two slash commands."""
    hint = v1.UnstructuredCommandInput("what to look for")
    await turn.commands([("review", "Review the change"), v1.AvailableCommand("find", "Find something", input=hint)])


@_shows("title", updates="session_info_update")
async def _title(turn: Turn, rest: str) -> None:
    """Set the title of the session; without a title, clear it."""
    await turn.title(rest or None)


@_shows("notice", updates="notice")
async def _notice(turn: Turn, rest: str) -> None:
    """Show a notice, if the client can show one."""
    await turn.notice("warning", rest or "Mind the gap", "This is what a notice looks like.")


@_shows("compaction", updates="compaction_update compaction_summary_chunk")
async def _compaction(turn: Turn, rest: str) -> None:
    """Compact the context, with a summary that is streamed."""
    compaction_id = f"compaction-{os.urandom(4).hex()}"
    await turn.update(v1.CompactionUpdate(compaction_id, "in_progress"))
    await turn.update(v1.CompactionSummaryChunk(compaction_id, v1.TextContent("We talked about ")))
    await turn.update(v1.CompactionSummaryChunk(compaction_id, v1.TextContent("compaction.")))
    await turn.update(v1.CompactionUpdate(compaction_id, "completed"))


@_shows("content", updates="agent_message_chunk")
async def _content(turn: Turn, rest: str) -> None:
    """Say one block of every kind: text, image, audio, link, resource."""
    await turn.say("One of each:")
    await turn.say(v1.ImageContent(PIXEL, "image/png"))
    await turn.say(v1.AudioContent(WAV, "audio/wav"))
    await turn.say(v1.ResourceLink("README", "file:///README.md", mime_type="text/markdown"))
    await turn.say(v1.EmbeddedResource(v1.TextResourceContents("hello", "file:///hello.txt")))


@_shows("unknown", updates="agent_message_chunk")
async def _unknown(turn: Turn, rest: str) -> None:
    """Send an update and a content block of types that the protocol does not have."""
    await turn.update(Unknown("_scripted", {"sessionUpdate": "_scripted", "colour": "octarine"}))
    await turn.say(Unknown("hologram", {"type": "hologram", "beam": 1}))
    await turn.say("still here")


@_shows("extension", updates="agent_message_chunk", methods="_scripted/ping")
async def _extension(turn: Turn, rest: str) -> None:
    """Call an extension method of the client."""
    try:
        await turn.say(f"pong: {await turn.request('_scripted/ping', {'n': 1})}")
    except RequestError as error:
        await turn.say(f"error {error.code}")


@_shows("big", updates="agent_message_chunk")
async def _big(turn: Turn, rest: str) -> None:
    """Say one piece of the size named in the prompt, in bytes (a million without one)."""
    await turn.say("x" * int(rest or 1_000_000))


@_shows("flood", updates="agent_message_chunk")
async def _flood(turn: Turn, rest: str) -> None:
    """Say as many pieces as the prompt names (a thousand without one), as fast as it can."""
    for n in range(int(rest or 1_000)):
        await turn.say(f"{n} ")


@_shows("slow", updates="agent_message_chunk tool_call tool_call_update")
async def _slow(turn: Turn, rest: str) -> None:
    """Work until cancelled, or for the seconds named in the prompt."""
    await turn.say("working")
    async with turn.tool("Waiting", kind="other"):
        with suppress(TimeoutError):
            async with asyncio.timeout(float(rest) if rest else None):
                await asyncio.Event().wait()


@_shows("late", updates="agent_message_chunk")
async def _late(turn: Turn, rest: str) -> None:
    """End the turn and send a message afterwards."""
    session = turn.session

    async def speak() -> None:
        await turn.wait()
        await session.say("one more thing")

    session.extra["late"] = asyncio.create_task(speak())


@_shows("stop")
async def _stop(turn: Turn, rest: str) -> str:
    """End with the stop reason named in the prompt (`refusal` without one)."""
    return rest or "refusal"


@_shows("error")
async def _error(turn: Turn, rest: str) -> None:
    """Answer with an error of the code named in the prompt (-32603 without one)."""
    raise RequestError(int(rest or -32603), "As you asked", {"scripted": True})


@_shows("exception")
async def _exception(turn: Turn, rest: str) -> None:
    """Fail with an exception; its text must never reach the client."""
    raise RuntimeError("the scripted agent has a bug on purpose: swordfish")


@_shows("print")
async def _print(turn: Turn, rest: str) -> None:
    """Print, and start a child process that prints: both go to stderr, never to the stream."""
    print(rest or "printed by the agent")  # noqa: T201  # that is what this word shows
    process = await asyncio.create_subprocess_exec("/bin/echo", rest or "printed by its child")
    await process.wait()


@_shows("noise", updates="agent_message_chunk")
async def _noise(turn: Turn, rest: str) -> None:
    """Write lines that are not messages into the stream, before and between its own."""
    raw = turn.session._connection.peer.outbox.send  # not public on purpose: an agent must not write such lines
    raw(b"Loading model weights...\n")
    await turn.say("before ")
    raw(b"\x1b[33mwarning\x1b[0m {not json}\n\n")
    await turn.say("after")


@_shows("crash")
async def _crash(turn: Turn, rest: str) -> None:
    """End the whole process with the exit code named in the prompt (3 without one), in the middle of a turn."""
    await turn.say("goodbye")
    await turn.session._connection.peer.breathe()
    os.write(2, b"scripted agent: crashing on request\n")
    os._exit(int(rest or 3))

"""Talks to any agent and shows the conversation.

    python examples/client.py [--yes] [PROMPT...] -- AGENT
    python examples/client.py "What is this project?" -- gemini

AGENT is a name that `dragoman agents list` shows, or a command with its arguments. It works in the current folder.
Without a prompt it asks for one, line by line. `--yes` allows what the agent asks permission for, once each time;
without it you are asked, and without a terminal the answer is no.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator

import dragoman
from dragoman.schema import UNSET, v1

COLOURS = {"you": "36;1", "agent": "0", "thought": "2;3", "tool": "33", "plan": "34", "note": "2"}


class Screen:
    """Writes updates as they come; text that continues the last chunk stays on its line."""

    def __init__(self) -> None:
        self._open = ""
        self._shown: dict[str, int] = {}

    def show(self, update: v1.SessionUpdate) -> None:
        match update:
            case v1.AgentMessageChunk(content=v1.TextContent(text=text)):
                self.flow("agent", text)
            case v1.AgentThoughtChunk(content=v1.TextContent(text=text)):
                self.flow("thought", text)
            case v1.ToolCall(title=title, kind=kind):
                self.line("tool", f"[{kind or 'other'}] {title}")
            case v1.ToolCallUpdate(tool_call_id=call, status=status, content=content):
                if content is not UNSET and content is not None:  # the whole list each time: show what is new
                    for item in content[self._shown.get(call, 0) :]:
                        self.show_result(item)
                    self._shown[call] = len(content)
                if status in ("completed", "failed"):
                    self.line("tool", f"  {status}")
            case v1.Plan(entries=entries):
                marks = {"completed": "x", "in_progress": ">"}
                self.line("plan", "  ".join(f"[{marks.get(entry.status, ' ')}] {entry.content}" for entry in entries))
            case v1.UsageUpdate(used=used, size=size):
                self.line("note", f"({used} of {size} tokens of context used)")
            case _:
                self.line("note", f"({type(update).__name__})")

    def show_result(self, item: v1.ToolCallContent) -> None:
        match item:
            case v1.Content(content=v1.TextContent(text=text)):
                self.line("tool", "\n".join(f"  {line}" for line in text.splitlines()))
            case v1.Diff(path=path, old_text=old, new_text=new):
                self.line("tool", f"  {path}")
                for sign, side in (("-", old), ("+", new)):
                    lines = side.splitlines() if isinstance(side, str) else []
                    self.line("tool", "\n".join(f"  {sign} {line}" for line in lines))
            case _:
                self.line("note", f"  ({type(item).__name__})")

    def flow(self, voice: str, text: str) -> None:
        if self._open != voice:
            self.end_line()
            self._open = voice
        self.write(voice, text)

    def line(self, voice: str, text: str) -> None:
        self.end_line()
        if text:
            self.write(voice, text)
            sys.stdout.write("\n")

    def end_line(self) -> None:
        if self._open:
            sys.stdout.write("\n")
        self._open = ""

    def write(self, voice: str, text: str) -> None:
        is_plain = not sys.stdout.isatty() or os.environ.get("NO_COLOR")
        sys.stdout.write(text if is_plain else f"\x1b[{COLOURS[voice]}m{text}\x1b[0m")
        sys.stdout.flush()


async def read_line(question: str) -> str:
    """A line from the terminal, read without a thread so that Ctrl-C ends it at once; empty at the end of input."""
    sys.stdout.write(question)
    sys.stdout.flush()
    loop = asyncio.get_running_loop()
    is_ready = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), is_ready.set)
    try:
        await is_ready.wait()
    finally:
        loop.remove_reader(sys.stdin.fileno())
    return sys.stdin.readline()


async def talk(prompts: list[str], command: list[str], *, allows_everything: bool) -> None:
    screen = Screen()

    async def permit(request: v1.RequestPermissionRequest, _: dragoman.Session) -> str | None:
        title = request.tool_call.title
        screen.line("tool", f"? may I: {title if title is not UNSET else request.tool_call.tool_call_id}")
        if allows_everything:
            chosen = next((option for option in request.options if option.kind == "allow_once"), None)
            screen.line("note", f"  answered by --yes: {chosen.name if chosen else 'no'}")
            return chosen.option_id if chosen else None
        if not sys.stdin.isatty():
            screen.line("note", "  no terminal to ask on: no")
            return None
        for number, option in enumerate(request.options, 1):
            screen.line("tool", f"  {number} {option.name}")
        answer = (await read_line("  number, or nothing for no: ")).strip()
        return request.options[int(answer) - 1].option_id if answer.isdigit() else None

    async with dragoman.spawn(*command, permission=permit) as agent:
        if agent.info:
            screen.line("note", f"connected to {agent.info.title or agent.info.name} {agent.info.version}")
        session = await agent.new_session(cwd=".")
        async for prompt in questions(prompts):
            screen.line("you", f"\n> {prompt}" if prompts else "")
            async for update in session.prompt(prompt):
                screen.show(update)
            screen.line("note", f"({session.state.stop_reason})")


async def questions(prompts: list[str]) -> AsyncIterator[str]:
    for prompt in prompts:
        yield prompt
    while not prompts and (line := await read_line("\n> ")):
        if line.strip():
            yield line.strip()


def main() -> int:
    words, command = sys.argv[1:], []
    if "--" in words:
        cut = words.index("--")
        words, command = words[:cut], words[cut + 1 :]
    prompts = [word for word in words if word != "--yes"]
    if not command or not (prompts or sys.stdin.isatty()):
        sys.stderr.write(__doc__ or "")
        return 2
    try:
        asyncio.run(talk(prompts, command, allows_everything="--yes" in words))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader went away; nothing is left to flush
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (dragoman.DragomanError, OSError) as error:
        sys.stderr.write(f"client: error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

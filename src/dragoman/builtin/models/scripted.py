"""A model that calls nobody: it plays a script. For tests and demonstrations, only ever by name.

Owns the script language, one action a line:

    think TEXT · say TEXT · read PATH · write PATH TEXT · edit PATH OLD => NEW · glob PATTERN · grep PATTERN
    run COMMAND · todo A; B; C · question TEXT | A | B · call TOOL {JSON} · slow [WORDS] · flood WORDS · pause SECONDS
    error TEXT · busy [TRIES] · cut · length · refuse

A tool ends a step; the next line is played when its result is back. `& ` before a tool runs it beside the one above.
`{result}` is what the last tool gave. A prompt that is no script is repeated.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from dragoman.builtin.models.model import ModelError, StepEnd
from dragoman.errors import ConfigError
from dragoman.uistream import chunks as c
from dragoman.uistream.messages import Message, StepStartPart, TextPart, ToolPart, Usage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from dragoman.builtin.models.model import ModelRequest

    Player = Callable[[ModelRequest], "Iterable[c.Chunk | StepEnd]"]

NAME: Final = "scripted"
CONTEXT_TOKENS: Final = 200_000
_SLOW_SECONDS: Final = 0.05
_SPEAKING: Final = frozenset({"say", "think", "slow", "flood", "pause", "error", "busy", "cut", "length", "refuse"})
_TOOLS: Final = frozenset({"read", "write", "edit", "glob", "grep", "run", "todo", "question", "call"})
VERBS: Final = _SPEAKING | _TOOLS


class Line(Struct, frozen=True):
    """One action."""

    verb: str
    rest: str
    is_beside: bool = False


def parse_script(text: str) -> list[list[Line]] | None:
    """The steps of a script, None when the text is none: its first word is no action."""
    lines = [line for line in (raw.strip() for raw in text.splitlines()) if line and not line.startswith("#")]
    parsed: list[Line] = []
    for line in lines:
        is_beside = line.startswith("& ")
        verb, _, rest = line.removeprefix("& ").partition(" ")
        if verb not in VERBS:
            if not parsed:
                return None
            # A longer text, such as that of a file, goes on in the next lines.
            last = parsed[-1]
            parsed[-1] = Line(last.verb, f"{last.rest}\n{line}", last.is_beside)
            continue
        parsed.append(Line(verb, rest.strip(), is_beside))
    steps: list[list[Line]] = [[]]
    for number, action in enumerate(parsed):
        steps[-1].append(action)
        follows = parsed[number + 1] if number + 1 < len(parsed) else None
        if action.verb in _TOOLS and not (follows is not None and follows.is_beside):
            steps.append([])
    return steps


class ScriptedModel:
    """Plays `script`, or without one the prompt itself. A callable gives the chunks of each step by itself."""

    name = NAME
    context_tokens = CONTEXT_TOKENS
    is_scripted = True

    def __init__(self, script: str | Player | None = None) -> None:
        self._player = script if callable(script) else None
        self._steps = None if script is None or callable(script) else _require_script(script)
        self._failures = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[c.Chunk | StepEnd]:
        """One step."""
        if self._player is not None:
            for item in self._player(request):
                yield item
            return
        reply = request.messages[-1]
        number = max(sum(isinstance(part, StepStartPart) for part in reply.parts) - 1, 0)
        steps = self._steps
        if steps is None:
            prompt = _prompt_of(request.messages)
            steps = parse_script(prompt) or [[Line("say", prompt or "There was nothing to say.")]]
        step = steps[number] if number < len(steps) else []
        async for item in self._play(step, request, f"{reply.id}.{number}"):
            yield item

    async def _play(self, step: list[Line], request: ModelRequest, prefix: str) -> AsyncIterator[c.Chunk | StepEnd]:
        written, called, reason = 0, False, "stop"
        result = _last_result(request.messages[-1])
        for position, line in enumerate(step):
            rest = line.rest.replace("{result}", result)
            id = f"{prefix}.{position}"
            if line.verb in _TOOLS:
                called = True
                async for chunk in _call(line.verb, rest, f"call_{id}"):
                    yield chunk
            elif line.verb in ("length", "refuse"):
                reason = "length" if line.verb == "length" else "content-filter"
                break
            else:
                async for chunk in self._speak(line.verb, rest, id):
                    yield chunk
            written += len(rest) // 4 + 1
        usage = Usage(input=_size(request), output=written)
        end: Any = "tool-calls" if called else reason
        yield StepEnd(end, usage, model=NAME)

    async def _speak(self, verb: str, rest: str, id: str) -> AsyncIterator[c.Chunk]:
        if verb == "error":
            raise ModelError(rest or "the script says that the model fails")
        if verb == "busy":
            self._failures += 1
            if self._failures <= int(rest or 1):
                raise ModelError("the script says that the provider is busy", is_retryable=True, status=529)
            self._failures = 0
        elif verb == "cut":
            yield c.TextStart(id)
            yield c.TextDelta(id, "half an answ")
            if not self._failures:
                self._failures = 1
                raise ModelError("the script says that the line broke", is_retryable=True)
            self._failures = 0
            yield c.TextDelta(id, "er")
            yield c.TextEnd(id)
        elif verb == "pause":
            await asyncio.sleep(float(rest or 1))
        elif verb == "think":
            yield c.ReasoningStart(id)
            for word in _words(rest):
                yield c.ReasoningDelta(id, word)
            yield c.ReasoningEnd(id)
        else:
            yield c.TextStart(id)
            for word in _words(rest) if verb == "say" else _count(verb, rest):
                yield c.TextDelta(id, word)
                if verb == "slow":
                    await asyncio.sleep(_SLOW_SECONDS)
            yield c.TextEnd(id)


def _require_script(text: str) -> list[list[Line]]:
    steps = parse_script(text)
    if steps is None:
        raise ConfigError(f"the script begins with no action; the actions are {', '.join(sorted(VERBS))}")
    return steps


async def _call(verb: str, rest: str, id: str) -> AsyncIterator[c.Chunk]:
    """A tool call as models make it: its arguments stream in as text first."""
    try:
        name, arguments = _arguments(verb, rest)
    except ValueError as error:
        raise ModelError(f"the script's line `{verb} {rest}` is not understood: {error}") from None
    yield c.ToolInputStart(id, name)
    text = msgspec.json.encode(arguments).decode()
    size = max(len(text) // 4, 8)
    for start in range(0, len(text), size):
        yield c.ToolInputDelta(id, text[start : start + size])
    yield c.ToolInputAvailable(id, name, arguments)


def _arguments(verb: str, rest: str) -> tuple[str, dict[str, Any]]:
    """Raises: ValueError for a line that lacks something."""
    first, _, more = rest.partition(" ")
    match verb:
        case "read":
            return "read", {"path": rest}
        case "write":
            return "write", {"path": first, "text": _unescaped(more)}
        case "edit":
            old, arrow, new = more.partition(" => ")
            if not arrow:
                raise ValueError("it wants PATH OLD => NEW")
            return "edit", {"path": first, "old": _unescaped(old), "new": _unescaped(new)}
        case "glob" | "grep":
            return verb, {"pattern": rest}
        case "run":
            return "bash", {"command": rest}
        case "todo":
            return "todo", {"items": [_todo(item.strip()) for item in rest.split(";") if item.strip()]}
        case "question":
            question, *choices = (part.strip() for part in rest.split("|"))
            return "question", {"question": question, "choices": [{"label": label} for label in choices]}
    try:
        arguments = msgspec.json.decode(more or "{}")
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None
    return first, arguments


def _todo(item: str) -> dict[str, str]:
    """`[x] done`, `[>] at it`, or just what is to be done."""
    for mark, status in (("[x]", "completed"), ("[>]", "in_progress"), ("[ ]", "pending")):
        if item.startswith(mark):
            return {"content": item.removeprefix(mark).strip(), "status": status}
    return {"content": item, "status": "pending"}


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n").replace("\\t", "\t")


def _words(text: str) -> list[str]:
    return re.findall(r"\s*\S+\s*$|\s*\S+", text) or [""]


def _count(verb: str, rest: str) -> list[str]:
    return [f"{number} " for number in range(1, int(rest or (600 if verb == "slow" else 200)) + 1)]


def _prompt_of(messages: tuple[Message, ...]) -> str:
    """The text of the user's last message, with whatever it steered to since."""
    for message in reversed(messages):
        if message.role == "user":
            return "\n".join(part.text for part in message.parts if isinstance(part, TextPart))
    return ""


def _last_result(reply: Message) -> str:
    for part in reversed(reply.parts):
        if isinstance(part, ToolPart) and part.is_over:
            if part.state == "output-available" and isinstance(part.output, dict):
                return str(part.output.get("text", part.output))
            return str(part.error_text or ("not permitted" if part.state == "output-denied" else part.state))
    return ""


def _size(request: ModelRequest) -> int:
    """A plausible number of tokens that grows with the conversation."""
    parts = (part for message in request.messages for part in message.parts)
    return len(request.system) // 4 + sum(len(getattr(part, "text", "")) // 4 + 4 for part in parts)

"""A model that plays a script instead of calling a provider. For tests and demonstrations; used only when named.

Owns the script language, one action per line:

    think TEXT · say TEXT · read PATH · write PATH TEXT · edit PATH OLD => NEW · glob PATTERN · grep PATTERN
    run COMMAND · todo A; B; C · question TEXT | A | B · task AGENT SCRIPT · call TOOL {JSON} · slow [WORDS]
    flood WORDS · pause SECONDS · error TEXT · busy [TRIES] · cut · length · refuse

A tool ends a step; the next line is played when its result has arrived. `& ` before a tool runs it in parallel with the
one above. `{result}` is the result of the last tool. `task` starts a subagent, whose prompt is its script, with `\\n`
between its lines. A prompt that is not a script is repeated.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from dragoman.builtin.models.model import Model, ModelError, StepEnd
from dragoman.builtin.refusals import refusal_in
from dragoman.errors import ConfigError
from dragoman.uistream import chunks as c
from dragoman.uistream.messages import StepStartPart, TextPart, ToolPart, UIMessage, Usage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator

    from dragoman.builtin.models.model import ModelRequest

    Player = Callable[[ModelRequest], "Iterable[c.Chunk | StepEnd]"]
    Chooser = Callable[[ModelRequest], "list[ScriptAction]"]

NAME: Final = "scripted"
CONTEXT_TOKENS: Final = 200_000
_SLOW_SECONDS: Final = 0.05
_SPEAKING: Final = frozenset({"say", "think", "slow", "flood", "pause", "error", "busy", "cut", "length", "refuse"})
_TOOLS: Final = frozenset({"read", "write", "edit", "glob", "grep", "run", "todo", "question", "task", "call"})
VERBS: Final = _SPEAKING | _TOOLS
_TASK: Final = re.compile(r"(?:task|Task|Agent)\b")


class ScriptAction(Struct, frozen=True):
    """One action of a script."""

    verb: str
    rest: str
    is_parallel: bool = False


def parse_script(text: str) -> list[list[ScriptAction]] | None:
    """Return the steps of a script, or None if the first word of the text is not an action."""
    lines = [line for line in (raw.strip() for raw in text.splitlines()) if line and not line.startswith("#")]
    parsed: list[ScriptAction] = []
    for line in lines:
        verb, _, rest = line.removeprefix("& ").partition(" ")
        if verb in VERBS:
            parsed.append(ScriptAction(verb, rest.strip(), line.startswith("& ")))
        elif not parsed:
            return None
        else:  # a longer text, such as that of a file, continues on the next lines
            last = parsed[-1]
            parsed[-1] = ScriptAction(last.verb, f"{last.rest}\n{line}", last.is_parallel)
    if not parsed:
        return None
    steps: list[list[ScriptAction]] = [[]]
    for action, following in zip(parsed, [*parsed[1:], None], strict=True):
        steps[-1].append(action)
        if action.verb in _TOOLS and not (following is not None and following.is_parallel):
            steps.append([])
    return steps


class ScriptedModel(Model):
    """A model that plays `script`, or the prompt itself if there is none. A callable returns the chunks of each step.

    Args:
        choose: returns the actions of each step, instead of a script.

    Raises: ConfigError for a script that does not begin with an action.
    """

    name = NAME
    context_tokens = CONTEXT_TOKENS
    is_scripted = True

    def __init__(self, script: str | Player | None = None, *, choose: Chooser | None = None) -> None:
        self._choose = choose
        self._player = script if callable(script) else None
        self._steps = None if script is None or callable(script) else parse_script(script)
        if isinstance(script, str) and self._steps is None:
            raise ConfigError(f"the script must begin with an action; the actions are {', '.join(sorted(VERBS))}")
        self._failures = 0
        self._counted: tuple[tuple[UIMessage, ...], int] = ((), 0)
        """The finished messages of the last request, which the next one repeats, and their tokens."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[c.Chunk | StepEnd, None]:
        if self._player is not None:
            for item in self._player(request):
                yield item
            return
        reply = request.messages[-1]
        number = max(sum(isinstance(part, StepStartPart) for part in reply.parts) - 1, 0)
        written, called, reason = 0, False, "stop"
        result = _last_result(reply)
        for position, action in enumerate(self._actions(request, number)):
            # The script of a subagent has results of its own, and actions that are chosen have none to be put in.
            is_task = action.verb == "task" or (action.verb == "call" and _TASK.match(action.rest))
            rest = action.rest if is_task or self._choose is not None else action.rest.replace("{result}", result)
            id = f"{reply.id}.{number}.{position}"
            if action.verb in _TOOLS:
                called = True
                for chunk in _call(action.verb, rest, f"call_{id}"):
                    yield chunk
            elif action.verb in ("length", "refuse"):
                reason = "length" if action.verb == "length" else "content-filter"
                break
            else:
                async for chunk in self._speak(action.verb, rest, id):
                    yield chunk
            written += len(rest) // 4 + 1
        end: Any = "tool-calls" if called else reason
        yield StepEnd(end, Usage(input=self._tokens(request), output=written), model=self.name)

    def _actions(self, request: ModelRequest, number: int) -> list[ScriptAction]:
        """Return the actions of a step of the running turn."""
        if self._choose is not None:
            return self._choose(request)
        steps = self._steps
        if steps is None:
            prompt = prompt_of(request.messages)
            steps = parse_script(prompt) or [[ScriptAction("say", prompt or "The prompt is empty.")]]
        return steps[number] if number < len(steps) else []

    def _tokens(self, request: ModelRequest) -> int:
        """Return a plausible number of tokens that grows with the conversation."""
        finished = request.messages[:-1]
        counted, tokens = self._counted
        if finished[: len(counted)] != counted:  # cheap: the same objects are not compared
            counted, tokens = (), 0
        tokens += sum(map(_tokens_of, finished[len(counted) :]))
        self._counted = finished, tokens
        return len(request.system) // 4 + tokens + _tokens_of(request.messages[-1])

    def for_subagent(self) -> Model:
        """Return a model that plays the subagent's prompt: a script that is given belongs to this agent."""
        return self if self._player is not None else ScriptedModel()

    async def _speak(self, verb: str, rest: str, id: str) -> AsyncIterator[c.Chunk]:
        if verb == "error":
            raise ModelError(rest or "the script makes the model fail")
        if verb == "busy":
            self._failures += 1
            if self._failures <= int(rest or 1):
                raise ModelError("the script makes the provider busy", is_retryable=True, status=529)
            self._failures = 0
        elif verb == "cut":
            yield c.TextStart(id)
            yield c.TextDelta(id, "half an answ")
            if not self._failures:
                self._failures = 1
                raise ModelError("the script breaks the connection", is_retryable=True)
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


def _call(verb: str, rest: str, id: str) -> Iterator[c.Chunk]:
    """Yield a tool call as models send it: its arguments arrive as text first."""
    try:
        name, arguments = _arguments(verb, rest)
    except ValueError as error:
        raise ModelError(f"the line `{verb} {rest}` of the script is not understood: {error}") from None
    yield c.ToolInputStart(id, name)
    text = msgspec.json.encode(arguments).decode()
    size = max(len(text) // 4, 8)
    for start in range(0, len(text), size):
        yield c.ToolInputDelta(id, text[start : start + size])
    yield c.ToolInputAvailable(id, name, arguments)


def _arguments(verb: str, rest: str) -> tuple[str, dict[str, Any]]:
    """Return the name and arguments of a tool. Raises: ValueError for an incomplete line."""
    first, _, more = rest.partition(" ")
    match verb:
        case "read":
            return "read", {"path": rest}
        case "write":
            return "write", {"path": first, "text": _unescaped(more)}
        case "edit":
            old, arrow, new = more.partition(" => ")
            if not arrow:
                raise ValueError("write it as PATH OLD => NEW")
            return "edit", {"path": first, "old": _unescaped(old), "new": _unescaped(new)}
        case "glob" | "grep" | "run":
            return ("bash", {"command": rest}) if verb == "run" else (verb, {"pattern": rest})
        case "todo":
            return "todo", {"items": [_todo(item.strip()) for item in rest.split(";") if item.strip()]}
        case "question":
            question, *choices = (part.strip() for part in rest.split("|"))
            return "question", {"question": question, "choices": [{"label": label} for label in choices]}
        case "task":
            script = _unescaped(more)
            return "task", {"description": script.partition("\n")[0][:40], "agent": first, "prompt": script}
    try:
        arguments = msgspec.json.decode(more or "{}")
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None
    return first, arguments


def _todo(item: str) -> dict[str, str]:
    """Read `[x] done`, `[>] in progress`, or a plain item, which is pending."""
    for mark, status in (("[x]", "completed"), ("[>]", "in_progress"), ("[ ]", "pending")):
        if item.startswith(mark):
            return {"content": item.removeprefix(mark).strip(), "status": status}
    return {"content": item, "status": "pending"}


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n").replace("\\t", "\t")


def _words(text: str) -> list[str]:
    return re.findall(r"\s*\S+\s*$|\s*\S+", text) or [""]


def _count(verb: str, rest: str) -> Iterator[str]:
    return (f"{number} " for number in range(1, int(rest or (600 if verb == "slow" else 200)) + 1))


def prompt_of(messages: tuple[UIMessage, ...]) -> str:
    """Return the text of the user's last message."""
    prompt = next((message for message in reversed(messages) if message.role == "user"), None)
    return "" if prompt is None else "\n".join(part.text for part in prompt.parts if isinstance(part, TextPart))


def _last_result(reply: UIMessage) -> str:
    for part in reversed(reply.parts):
        if isinstance(part, ToolPart) and part.is_over:
            if part.state == "output-available" and isinstance(part.output, dict):
                return str(part.output.get("text", part.output))
            return refusal_in(part) if part.state == "output-denied" else str(part.error_text or part.state)
    return ""


def _tokens_of(message: UIMessage) -> int:
    return sum(len(getattr(part, "text", "")) // 4 + 4 for part in message.parts)

"""Messages of the program as chunks: text, thoughts, calls, the plan, compactions, retries, usage, the end of a turn.

Owns what has been shown of the current message and of each call. Text comes twice, as events while it is written and
then whole: the second is left out. A message of an unknown kind makes no chunks. Does not know prompts or processes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from dragoman.adapters.claude.calls import PLAN_TOOLS, output_of, read_text, shown_call
from dragoman.adapters.claude.plan_entries import PlanEntries
from dragoman.uistream import chunks as c
from dragoman.uistream.display import FileDiff, with_display

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.adapters.claude.calls import Reader

_FINISH_REASONS: Final = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content-filter",
}
_LIMITS: Final = {"error_max_turns": "steps", "error_max_budget_usd": "cost"}
_COMMAND_OUTPUT: Final = re.compile(r"<local-command-std(?:out|err)>(.*?)</local-command-std(?:out|err)>", re.DOTALL)
LOGIN: Final = "Claude Code is not logged in: run `claude` in a terminal and type /login, or set ANTHROPIC_API_KEY"


class _KnownCall(Struct):
    name: str
    diffs: tuple[FileDiff, ...] = ()
    is_over: bool = False
    report: str = ""
    """What a sub-agent has written so far."""


class ClaudeEvents:
    """One stream of messages, such as a turn.

    Args:
        plan: the plan of the session, which outlives a turn.
        read: reads a file for the diff of an edit that waits for permission.
        shows_commands: show what slash commands print.
    """

    def __init__(
        self, plan: PlanEntries | None = None, *, read: Reader = read_text, shows_commands: bool = True
    ) -> None:
        self._plan = plan or PlanEntries()
        self._read = read
        self._shows_commands = shows_commands
        self._calls: dict[str, _KnownCall] = {}
        self._message_id = ""
        self._streamed: set[str] = set()
        """Messages whose text arrived as events."""
        self._open: dict[int, tuple[str, str]] = {}
        """Passages that are being written: index of the block -> its kind and id."""
        self._compaction: str | None = None
        self._compactions = 0
        self._texts = 0
        self._used = 0
        self.window: int | None = None
        """The size of the model's context window, once a result named it."""

    def feed(self, message: dict[str, Any]) -> Iterator[c.Chunk]:
        """Yield the chunks for one message."""
        match message.get("type"):
            case "stream_event":
                if not message.get("parent_tool_use_id"):
                    yield from self._streaming(_dict(message.get("event")))
            case "assistant":
                yield from self._assistant(message)
            case "user":
                yield from self._user(message)
            case "system":
                yield from self._system(message)
            case "result":
                yield from self._result(message)
            case "rate_limit_event":
                yield from _rate_limit(_dict(message.get("rate_limit_info")))

    def announce(self, request: dict[str, Any]) -> Iterator[c.Chunk]:
        """Yield the chunks that show a call which permission is asked for, if it was not shown yet."""
        call_id = str(request.get("tool_use_id"))
        if call_id not in self._calls:
            yield from self._called(call_id, str(request.get("tool_name")), request.get("input"), None)

    def knows(self, call_id: str) -> bool:
        """Return whether a call belongs to this stream."""
        return call_id in self._calls

    # The model's messages

    def _streaming(self, event: dict[str, Any]) -> Iterator[c.Chunk]:
        match event:
            case {"type": "message_start", "message": dict(message)}:
                yield from self._end_passages()
                yield from self._usage(None)
                self._message_id = str(message.get("id"))
                self._streamed.add(self._message_id)
            case {"type": "content_block_start", "index": int(index), "content_block": dict(block)}:
                yield from self._begin(index, block)
            case {"type": "content_block_delta", "index": int(index), "delta": dict(delta)}:
                kind, passage = self._open.get(index, ("", ""))
                if kind == "text" and isinstance(delta.get("text"), str):
                    yield c.TextDelta(passage, delta["text"])
                elif kind == "thinking" and isinstance(delta.get("thinking"), str):
                    yield c.ReasoningDelta(passage, delta["thinking"])
            case {"type": "content_block_stop", "index": int(index)}:
                yield from self._end(self._open.pop(index, None))
            case {"type": "message_delta", "usage": dict(usage)}:
                # Shown with the next message: a chunk between a call and the question about it would start the call.
                self._used = _context(usage)
            case {"type": "message_stop"}:
                yield from self._end_passages()

    def _begin(self, index: int, block: dict[str, Any]) -> Iterator[c.Chunk]:
        kind, passage = block.get("type"), f"{self._message_id}.{index}"
        if kind == "text":
            self._open[index] = ("text", passage)
            yield c.TextStart(passage)
        elif kind == "thinking":
            self._open[index] = ("thinking", passage)
            yield c.ReasoningStart(passage)
        elif isinstance(kind, str) and kind.endswith("tool_use") and isinstance(block.get("id"), str):
            name = str(block.get("name"))
            if name not in PLAN_TOOLS and block["id"] not in self._calls:
                title, display = shown_call(name, {}, self._read)
                yield with_display(c.ToolInputStart(block["id"], name, dynamic=True), title, display)

    def _end_passages(self) -> Iterator[c.Chunk]:
        passages, self._open = list(self._open.values()), {}
        for passage in passages:
            yield from self._end(passage)

    def _end(self, passage: tuple[str, str] | None) -> Iterator[c.Chunk]:
        if passage is not None:
            yield c.TextEnd(passage[1]) if passage[0] == "text" else c.ReasoningEnd(passage[1])

    def _assistant(self, line: dict[str, Any]) -> Iterator[c.Chunk]:
        message = _dict(line.get("message"))
        parent = line.get("parent_tool_use_id")
        parent = parent if isinstance(parent, str) else None
        is_error = line.get("is_api_error_message") is True or bool(line.get("error"))
        is_shown = str(message.get("id")) in self._streamed or is_error  # the result says what the error is
        for block in _blocks(message.get("content")):
            kind = block.get("type")
            if isinstance(kind, str) and kind.endswith("tool_use"):
                yield from self._called(str(block.get("id")), str(block.get("name")), block.get("input"), parent)
            elif isinstance(kind, str) and kind.endswith("tool_result"):
                yield from self._answered(block, None, {})
            elif parent:
                yield from self._reported(parent, block)
            elif not is_shown:
                yield from self._written(block)

    def _written(self, block: dict[str, Any]) -> Iterator[c.Chunk]:
        """Yield a passage that was not streamed."""
        self._texts += 1
        passage = f"whole.{self._texts}"
        if block.get("type") == "text" and block.get("text"):
            yield from (c.TextStart(passage), c.TextDelta(passage, str(block["text"])), c.TextEnd(passage))
        elif block.get("type") == "thinking" and block.get("thinking"):
            thought = str(block["thinking"])
            yield from (c.ReasoningStart(passage), c.ReasoningDelta(passage, thought), c.ReasoningEnd(passage))

    def _reported(self, parent: str, block: dict[str, Any]) -> Iterator[c.Chunk]:
        """Show text of a sub-agent as the output so far of the call that started it."""
        call = self._calls.get(parent)
        if call is None or call.is_over or block.get("type") != "text" or not block.get("text"):
            return
        call.report = f"{call.report}\n{block['text']}" if call.report else str(block["text"])
        yield c.ToolOutputAvailable(parent, call.report, preliminary=True, dynamic=True)

    # Calls

    def _called(self, call_id: str, name: str, arguments: Any, parent: str | None) -> Iterator[c.Chunk]:
        if call_id in self._calls:
            return
        title, display = shown_call(name, arguments, self._read, parent)
        self._calls[call_id] = _KnownCall(name, display.diffs)
        if name in PLAN_TOOLS:
            plan = self._plan.called(name, arguments)
            if plan is not None:
                yield plan
            return
        yield with_display(c.ToolInputAvailable(call_id, name, arguments, dynamic=True), title, display)

    def _answered(self, block: dict[str, Any], result: Any, decisions: dict[str, Any]) -> Iterator[c.Chunk]:
        call_id = str(block.get("tool_use_id"))
        call = self._calls.get(call_id)
        if call is None or call.is_over:
            return
        call.is_over = True
        if call.name in PLAN_TOOLS:
            plan = self._plan.answered(call.name, result)
            if plan is not None:
                yield plan
        elif decisions.get(call_id) == "reject":
            yield c.ToolOutputDenied(call_id)
        else:
            output = output_of(call.name, block, result, call.diffs)
            yield c.ToolOutputAvailable(call_id, msgspec.to_builtins(output), dynamic=True)

    def _user(self, line: dict[str, Any]) -> Iterator[c.Chunk]:
        content = _dict(line.get("message")).get("content")
        if isinstance(content, str):
            if self._shows_commands and (printed := command_output(content)):
                yield from self._written({"type": "text", "text": printed})
            return
        decisions = {str(block.get("id")): _decision(block) for block in _blocks(line.get("tool_result_meta"))}
        results = [block for block in _blocks(content) if block.get("type") == "tool_result"]
        for block in results:
            yield from self._answered(block, line.get("tool_use_result") if len(results) == 1 else None, decisions)

    # What the program reports about itself

    def _system(self, line: dict[str, Any]) -> Iterator[c.Chunk]:
        match line:
            case {"subtype": "status", "status": "compacting"}:
                yield from self._compacting()
            case {"subtype": "status", "compact_result": str(outcome)} if outcome != "success":
                why = str(line.get("compact_error") or outcome)
                yield from self._compacted({"status": "failed", "error": why})
            case {"subtype": "compact_boundary"}:
                metadata = _dict(line.get("compact_metadata") or line.get("compactMetadata"))
                before = metadata.get("pre_tokens", metadata.get("preTokens"))
                after = metadata.get("post_tokens", metadata.get("postTokens"))
                yield from self._compacted({"status": "completed", "tokens_before": before, "tokens_after": after})
            case {"subtype": "api_retry"}:
                yield notice("The model did not answer; it is asked again", _retry(line), "warning")

    def _compacting(self) -> Iterator[c.Chunk]:
        if self._compaction is None:
            self._compactions += 1
            self._compaction = f"{self._message_id or 'claude'}.compaction.{self._compactions}"
            yield c.Data("compaction", {"id": self._compaction, "status": "in_progress"}, self._compaction)

    def _compacted(self, data: dict[str, Any]) -> Iterator[c.Chunk]:
        yield from self._compacting()
        if self._compaction is not None:
            yield c.Data("compaction", {"id": self._compaction, **data}, self._compaction)
            self._compaction = None

    # The end

    def _result(self, line: dict[str, Any]) -> Iterator[c.Chunk]:
        yield from self._end_passages()
        models = [usage for usage in _dict(line.get("modelUsage")).values() if isinstance(usage, dict)]
        windows = [model["contextWindow"] for model in models if isinstance(model.get("contextWindow"), int)]
        self.window = max(windows, default=self.window)
        cost = line.get("total_cost_usd")
        yield from self._usage(cost if isinstance(cost, (int, float)) else None)
        subtype, reason = str(line.get("subtype")), str(line.get("terminal_reason"))
        if subtype in _LIMITS:
            yield c.Data("limit", {"limit": _LIMITS[subtype]}, transient=True)
            yield c.Finish()
        elif reason.startswith("aborted"):
            yield c.Finish("stop")
        elif line.get("is_error") is True:
            yield c.ErrorChunk(failure_of(line))
        else:
            yield c.Finish(_FINISH_REASONS.get(str(line.get("stop_reason")), "stop"))

    def _usage(self, cost: float | None) -> Iterator[c.Chunk]:
        if self.window is not None and self._used:
            data = {"used": self._used, "size": self.window, "cost_usd": cost}
            yield c.Data("usage", data, "usage", transient=True)


def failure_of(result: dict[str, Any]) -> str:
    """Return why a turn failed, in words for the user."""
    errors = [str(error) for error in result.get("errors") or () if isinstance(error, str)]
    text = str(result.get("result") or "") or "; ".join(errors) or str(result.get("subtype"))
    if "/login" in text or result.get("api_error_status") == 401:
        return f"{LOGIN} ({text})"
    return f"Claude Code: {text}"


def command_output(content: str) -> str:
    """Return what a slash command printed, as text."""
    return "\n".join(found.strip() for found in _COMMAND_OUTPUT.findall(content) if found.strip())


def background_notice(line: dict[str, Any]) -> c.Data | None:
    """Return the notice that work in the background has ended."""
    status, summary = str(line.get("status")), str(line.get("summary") or "")
    words = {"completed": "has ended", "failed": "has failed", "stopped": "was stopped", "killed": "was stopped"}
    if status not in words:
        return None
    return notice(f"Work in the background {words[status]}", summary, "warning" if status == "failed" else "info")


def notice(title: str, description: str, severity: str) -> c.Data:
    """Return a notice next to the conversation."""
    return c.Data("notice", {"title": title, "description": description or None, "severity": severity}, transient=True)


def _retry(line: dict[str, Any]) -> str:
    delay, status = line.get("retry_delay_ms"), line.get("error_status")
    when = f" in {delay / 1000:.1f} s" if isinstance(delay, (int, float)) else ""
    why = f"{line.get('error') or 'error'}{f' ({status})' if status else ''}"
    return f"Attempt {line.get('attempt')} of {line.get('max_retries')}{when}: {why}"


def _rate_limit(info: dict[str, Any]) -> Iterator[c.Chunk]:
    status = info.get("status")
    if status in ("allowed_warning", "rejected"):
        title = "The usage limit is reached" if status == "rejected" else "The usage limit is near"
        yield notice(title, str(info.get("rateLimitType") or "").replace("_", " "), "warning")


def _decision(meta: dict[str, Any]) -> str:
    if meta.get("non_execution_kind") == "user-rejected":
        return "reject"
    return str(_dict(meta.get("permission_decision")).get("decision"))


def _context(usage: dict[str, Any]) -> int:
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
    return sum(usage[name] for name in names if isinstance(usage.get(name), int))


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _blocks(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []

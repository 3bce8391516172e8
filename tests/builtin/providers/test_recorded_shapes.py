"""Answers in the shapes that public recordings of real servers have: which events come, in which order, with what.

Real streams differ from what their documentation shows. The shapes were learned from recordings that other projects
publish (mostly the fixtures of the AI SDK's providers); every text and id here is our own.
"""

from typing import Any

import pytest

from dragoman.builtin.models.model import StepEnd
from dragoman.builtin.models.wire_forms.anthropic import AnthropicForm
from dragoman.builtin.models.wire_forms.chat import ChatForm
from dragoman.builtin.models.wire_forms.form import WireForm
from dragoman.builtin.models.wire_forms.gemini import GeminiForm
from dragoman.builtin.models.wire_forms.responses import ResponsesForm
from dragoman.uistream import chunks as c
from dragoman.uistream.fold import Reducer
from dragoman.uistream.messages import Part, ReasoningPart, TextPart, ToolPart, UIMessage, Usage
from tests.builtin.providers.forms import agent, answer_of, as_bytes, body_of, conversation, read, target_of

CLAUDE = AnthropicForm(target_of("anthropic:claude-sonnet-5-5"))
GPT = ResponsesForm(target_of("openai:gpt-5"))
CHAT = ChatForm(target_of("openai-compatible:local-model"))
GEMINI = GeminiForm(target_of("google:gemini-2.5-flash"))


def shown(parts: list[Part]) -> list[Any]:
    """What an answer says: texts, thoughts, and calls with their arguments."""
    found: list[Any] = []
    for part in parts:
        if isinstance(part, TextPart):
            found.append(part.text)
        elif isinstance(part, ReasoningPart):
            found.append(("thought", part.text))
        elif isinstance(part, ToolPart):
            found.append((part.name, part.input))
    return found


def folded(form: WireForm, events: list[Any]) -> tuple[list[Part], StepEnd, int]:
    """The parts within a step, its end, and how often the answer began again."""
    *chunks, end = read(form, as_bytes(events))
    message = UIMessage("reply", "assistant", [])
    reducer = Reducer(message)
    reducer.feed(c.StartStep())
    for chunk in chunks:
        assert not isinstance(chunk, StepEnd)
        reducer.feed(chunk)
    assert isinstance(end, StepEnd)
    return message.parts[1:], end, sum(isinstance(chunk, c.ResetStep) for chunk in chunks)


# Anthropic


def start(id: str = "msg_1", **usage: int) -> dict[str, Any]:
    counts = {"input_tokens": 50, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 1}
    message: dict[str, Any] = {
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5-5",
        "content": [],
    }
    message |= {"stop_reason": None, "stop_sequence": None, "usage": {**counts, "service_tier": "standard", **usage}}
    return {"type": "message_start", "message": message}


def block(index: int, content: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [{"type": "content_block_start", "index": index, "content_block": content}]
    events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    return [*events, {"type": "content_block_stop", "index": index}]


def thinking(index: int, text: str, signature: str) -> list[dict[str, Any]]:
    said = {"type": "thinking_delta", "thinking": text}, {"type": "signature_delta", "signature": signature}
    return block(index, {"type": "thinking", "thinking": "", "signature": ""}, *said)


def tool_use(index: int, id: str, *pieces: str) -> list[dict[str, Any]]:
    use = {"type": "tool_use", "id": id, "name": "look", "input": {}, "caller": {"type": "direct"}}
    return block(index, use, *({"type": "input_json_delta", "partial_json": piece} for piece in pieces))


def stop(reason: str, **usage: Any) -> list[dict[str, Any]]:
    delta = {"stop_reason": reason, "stop_sequence": None, "stop_details": None}
    counts = {"output_tokens": 20, **usage}
    return [{"type": "message_delta", "delta": delta, "usage": counts}, {"type": "message_stop"}]


def text(index: int, words: str) -> list[dict[str, Any]]:
    return block(index, {"type": "text", "text": ""}, {"type": "text_delta", "text": words})


def test_anthropic_arguments_begin_with_an_empty_piece_and_a_ping() -> None:
    call = tool_use(1, "toolu_1", "", '{"value": "a \\"quoted', '\\" word"', "}")
    call.insert(1, {"type": "ping"})
    parts, end = answer_of(CLAUDE, start(), *text(0, "Let me look."), *call, *stop("tool_use"))
    assert shown(parts) == ["Let me look.", ("look", {"value": 'a "quoted" word'})]
    assert end.reason == "tool-calls"


def test_anthropic_counts_of_the_end_replace_those_of_the_start_but_a_zero_does_not() -> None:
    _, end = answer_of(CLAUDE, start(), *text(0, "hi"), *stop("end_turn", input_tokens=70, cache_read_input_tokens=9))
    assert end.usage == Usage(input=70, output=20, cache_read=9)
    _, end = answer_of(CLAUDE, start(), *text(0, "hi"), *stop("end_turn", input_tokens=0, cache_read_input_tokens=None))
    assert end.usage == Usage(input=50, output=20)


def test_anthropic_message_that_begins_again_in_the_middle_replaces_what_came_before() -> None:
    """A gateway whose server failed goes on with the message of another one."""
    first = [start("msg_1"), *thinking(0, "first", "s1"), *tool_use(1, "toolu_1", '{"value": "a')[:-1]]
    second = [start("msg_2"), *thinking(0, "second", "s2"), *tool_use(1, "toolu_2", '{"value": "b"}')]
    parts, end, restarts = folded(CLAUDE, [*first, *second, *stop("tool_use")])
    assert shown(parts) == [("thought", "second"), ("look", {"value": "b"})]
    assert restarts == 1
    assert end.reason == "tool-calls"
    sent = body_of(CLAUDE, conversation(agent(*parts)))["messages"][-2]["content"]
    assert sent[0] == {"type": "thinking", "thinking": "second", "signature": "s2"}


def test_anthropic_start_that_is_repeated_changes_nothing() -> None:
    events = [start(), start(), *text(0, "one"), start(), *text(1, "two"), *stop("end_turn")]
    parts, _, restarts = folded(CLAUDE, events)
    assert shown(parts) == ["one", "two"]
    assert restarts == 0


def test_anthropic_answer_ends_with_its_first_message() -> None:
    events = [start("msg_1"), *text(0, "one"), *stop("end_turn"), start("msg_2"), *text(0, "two"), *stop("end_turn")]
    parts, _, restarts = folded(CLAUDE, events)
    assert shown(parts) == ["one"]
    assert restarts == 0


def test_anthropic_blocks_of_the_server_are_left_out() -> None:
    fallback = {"type": "fallback", "from": {"model": "claude-a"}, "to": {"model": "claude-b"}}
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"type": "web_search_result"}]}
    cited = {"type": "citations_delta", "citation": {"type": "web_search_result_location", "url": "https://x.test"}}
    events = [
        *block(0, fallback),
        *block(1, search, {"type": "input_json_delta", "partial_json": '{"query": "x"}'}),
        *block(2, found),
        *block(3, {"type": "text", "text": "", "citations": []}, cited, {"type": "text_delta", "text": "so it is"}),
    ]
    parts, end = answer_of(CLAUDE, start(), *events, *stop("end_turn", iterations=[{"type": "message"}]))
    assert shown(parts) == ["so it is"]
    assert end.reason == "stop"


def test_anthropic_members_may_be_null() -> None:
    """Servers that imitate the form write members without a value as null."""
    content = {"type": "thinking", "thinking": "", "signature": None, "data": None, "input": None}
    events = [*block(0, content, {"type": "thinking_delta", "thinking": "hm", "text": None}), *text(1, "hi")]
    parts, _ = answer_of(CLAUDE, start(), *events, *stop("end_turn"))
    assert shown(parts) == [("thought", "hm"), "hi"]


# OpenAI's Responses


def done(status: str = "completed", **members: Any) -> dict[str, Any]:
    usage: dict[str, Any] = {"input_tokens": 90, "input_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 0}}
    usage |= {"output_tokens": 30, "output_tokens_details": {"reasoning_tokens": 10}, "total_tokens": 120}
    response: dict[str, Any] = {
        "id": "resp_1",
        "model": "gpt-5",
        "status": status,
        "output": [],
        "usage": usage,
        "error": None,
    }
    return {"type": f"response.{status}", "response": {**response, **members}, "sequence_number": 99}


def test_responses_ids_of_an_item_change_from_event_to_event() -> None:
    events: list[Any] = [{"type": "response.created", "response": {"id": "r1", "output": [], "usage": None}}]
    item: dict[str, Any] = {"type": "reasoning", "content": [], "encrypted_content": None, "summary": []}
    events.append({"type": "response.output_item.added", "output_index": 0, "item": {**item, "id": "x1"}})
    part = {"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 0, "item_id": "x2"}
    events.append({**part, "part": {"type": "summary_text", "text": ""}})
    delta = {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0}
    events.append({**delta, "item_id": "x3", "delta": "**Counting**", "obfuscation": "abc"})
    summary = [{"type": "summary_text", "text": "**Counting**"}]
    ended = {**item, "id": "x4", "summary": summary}
    events.append({"type": "response.output_item.done", "output_index": 0, "item": ended})
    message = {"type": "message", "role": "assistant", "status": "in_progress", "content": [], "phase": "final_answer"}
    events.append({"type": "response.output_item.added", "output_index": 1, "item": {**message, "id": "x5"}})
    said = {"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "logprobs": []}
    events += [{**said, "item_id": f"y{number}", "delta": word} for number, word in enumerate(["There", " are", " 3"])]
    whole = [{"type": "output_text", "text": "There are 3", "annotations": [], "logprobs": []}]
    item_done = {**message, "id": "x6", "status": "completed", "content": whole}
    events.append({"type": "response.output_item.done", "output_index": 1, "item": item_done})
    parts, end = answer_of(GPT, *events, done(output=[{**ended, "id": "x7"}, {**item_done, "id": "x8"}]))
    assert shown(parts) == [("thought", "**Counting**"), "There are 3"]
    assert end.usage == Usage(input=50, output=20, reasoning=10, cache_read=40)


def test_responses_thoughts_may_be_raw_text_without_encryption() -> None:
    item = {"type": "reasoning", "id": "a-uuid", "status": "in_progress", "content": [], "summary": []}
    events: list[Any] = [{"type": "response.output_item.added", "output_index": 0, "item": item}]
    delta = {"type": "response.reasoning_text.delta", "output_index": 0, "content_index": 0, "item_id": "a-uuid"}
    events += [{**delta, "delta": "I look"}, {**delta, "delta": " first."}]
    content = [{"type": "reasoning_text", "text": "I look first."}]
    item_done = {**item, "status": "completed", "content": content}
    events.append({"type": "response.output_item.done", "output_index": 0, "item": item_done})
    call = {"type": "function_call", "id": "b-uuid", "call_id": "call_00", "name": "look", "arguments": ""}
    events.append({"type": "response.output_item.added", "output_index": 1, "item": call})
    given = {"type": "response.function_call_arguments.delta", "output_index": 1, "item_id": "b-uuid"}
    events += [{**given, "delta": piece} for piece in ("{", '"value"', ": ", '"a"', "}")]
    whole = {**call, "arguments": '{"value": "a"}', "status": "completed"}
    events.append({"type": "response.output_item.done", "output_index": 1, "item": whole})
    parts, end = answer_of(GPT, *events, done(output=[item_done, whole]))
    assert shown(parts) == [("thought", "I look first."), ("look", {"value": "a"})]
    assert end.reason == "tool-calls"


# Chat completions


def piece(delta: dict[str, Any], reason: str | None = None, **members: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
    return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice], **members}


USAGE = {"prompt_tokens": 60, "completion_tokens": 20, "total_tokens": 80}


def test_chat_first_chunk_may_be_empty_and_others_have_no_choices() -> None:
    empty = {"choices": [], "created": 0, "id": "", "model": "", "object": ""}
    nothing = {**empty, "usage": None}
    parts, end = answer_of(
        CHAT,
        empty,
        piece({"role": "assistant", "content": "Hello"}),
        nothing,
        piece({}, "stop"),
        {**empty, "usage": USAGE},
    )
    assert shown(parts) == ["Hello"]
    assert end.model == "openai-compatible:m"
    assert end.usage == Usage(input=60, output=20)


def test_chat_empty_members_next_to_thoughts_mean_nothing() -> None:
    events = [
        piece({"role": "assistant", "content": "", "reasoning_content": "Think ", "tool_calls": []}),
        piece({"content": "", "reasoning_content": "more", "tool_calls": []}),
        piece({"content": "Hello", "reasoning_content": "", "tool_calls": []}, "stop"),
    ]
    parts, end = answer_of(CHAT, *events)
    assert shown(parts) == [("thought", "Think more"), "Hello"]
    assert end.reason == "stop"


def test_chat_calls_may_begin_at_another_index_and_go_on_with_an_empty_name() -> None:
    function = {"name": "look", "arguments": ""}
    events = [
        piece({"tool_calls": [{"index": 1, "id": "t1", "type": "function", "function": function}], "index": 0}),
        piece({"tool_calls": [{"index": 1, "type": "function", "function": {"name": "", "arguments": '{"value"'}}]}),
        piece({"tool_calls": [{"index": 1, "function": {"arguments": ': "a"}'}}]}),
        piece({"content": "", "index": 0}, "tool_calls", usage=USAGE, x_groq={"id": "r", "usage": USAGE}),
    ]
    parts, end = answer_of(CHAT, *events, "[DONE]")
    assert shown(parts) == [("look", {"value": "a"})]
    assert end.usage == Usage(input=60, output=20)


def test_chat_parallel_calls_without_an_index_are_told_apart_by_their_position() -> None:
    begun = [{"id": f"t{n}", "type": "function", "function": {"name": "look", "arguments": ""}} for n in range(2)]
    written = [{"function": {"arguments": f'{{"value": "{letter}"}}'}} for letter in "ab"]
    events = [piece({"role": "assistant", "content": ""}), piece({"tool_calls": begun}), piece({"tool_calls": written})]
    parts, _ = answer_of(CHAT, *events, piece({}, "tool_calls"))
    assert shown(parts) == [("look", {"value": "a"}), ("look", {"value": "b"})]
    assert [part.tool_call_id for part in parts if isinstance(part, ToolPart)] == ["t0", "t1"]


@pytest.mark.parametrize("has_ids", [True, False])
def test_chat_calls_without_an_index_that_come_one_after_the_other_are_told_apart(has_ids: bool) -> None:
    events = []
    for letter in "ab":
        id = {"id": f"t{letter}"} if has_ids else {}
        events.append(piece({"tool_calls": [{**id, "function": {"name": "look", "arguments": ""}}]}))
        events.append(piece({"tool_calls": [{"function": {"arguments": f'{{"value": "{letter}"}}'}}]}))
    parts, _ = answer_of(CHAT, *events, piece({}, "tool_calls"))
    assert shown(parts) == [("look", {"value": "a"}), ("look", {"value": "b"})]


# Gemini


def candidate(*parts: dict[str, Any], reason: str | None = None, **counts: int) -> dict[str, Any]:
    found: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if reason:
        found["finishReason"] = reason
    usage: dict[str, Any] = {"promptTokenCount": 15, "totalTokenCount": 68, "serviceTier": "standard", **counts}
    usage["promptTokensDetails"] = [{"modality": "TEXT", "tokenCount": 15}]
    return {"candidates": [found], "usageMetadata": usage, "modelVersion": "gemini-2.5-flash", "responseId": "r"}


def test_gemini_signature_may_come_with_an_empty_text_at_the_end() -> None:
    last = candidate({"text": "", "thoughtSignature": "c2ln"}, reason="STOP", thoughtsTokenCount=52)
    parts, end = answer_of(GEMINI, candidate({"text": "4"}, candidatesTokenCount=1), last)
    assert shown(parts) == ["4"]
    assert end.usage == Usage(input=15, output=1, reasoning=52)
    sent = body_of(GEMINI, conversation(agent(*parts)))["contents"][-1]["parts"]
    assert sent == [{"text": "4"}, {"text": "", "thoughtSignature": "c2ln"}]


def test_gemini_counts_grow_with_every_event() -> None:
    events = [
        candidate({"text": "I see", "thought": True}, thoughtsTokenCount=14),
        candidate({"text": " now", "thought": True}, thoughtsTokenCount=38),
        candidate({"text": "hello"}, thoughtsTokenCount=38, candidatesTokenCount=1),
        candidate({"text": ""}, reason="STOP", thoughtsTokenCount=38, candidatesTokenCount=1),
    ]
    parts, end = answer_of(GEMINI, *events)
    assert shown(parts) == [("thought", "I see now"), "hello"]
    assert end.usage == Usage(input=15, output=1, reasoning=38)


def test_gemini_blocked_prompt_has_no_candidates() -> None:
    blocked = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 9}}
    parts, end = answer_of(GEMINI, {**blocked, "modelVersion": "gemini-2.5-flash"})
    assert parts == []
    assert end.reason == "content-filter"
    assert end.usage == Usage(input=9)


def test_gemini_call_may_have_no_arguments() -> None:
    parts, end = answer_of(GEMINI, candidate({"functionCall": {"name": "look"}}, reason="STOP"))
    assert shown(parts) == [("look", {})]
    assert end.reason == "tool-calls"

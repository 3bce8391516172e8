"""What a type checker sees of the generated types; checked by mypy, never run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never, assert_type

from dragoman.schema import UNSET, ContentBlock, TextContent, Unknown, UnsetType, decode, v1


def a_union_includes_unknown(block: ContentBlock, server: v1.McpServer, update: v1.SessionUpdate) -> None:
    match block:
        case v1.TextContent() | v1.ImageContent() | v1.AudioContent() | v1.ResourceLink() | v1.EmbeddedResource():
            pass
        case _:
            assert_type(block, Unknown)
    match server:
        case v1.McpServerStdio():
            assert_type(server.command, str)
        case v1.McpServerHttp() | v1.McpServerSse() | v1.McpServerAcp():
            assert_type(server.name, str)
        case Unknown():
            assert_type(server.tag, str | None)
        case _:
            assert_never(server)
    if isinstance(update, v1.ContentChunk):
        assert_type(update, v1.UserMessageChunk | v1.AgentMessageChunk | v1.AgentThoughtChunk)


def forgetting_unknown_is_an_error(block: ContentBlock) -> None:
    match block:
        case v1.TextContent() | v1.ImageContent() | v1.AudioContent() | v1.ResourceLink() | v1.EmbeddedResource():
            pass
        case _:
            assert_never(block)  # type: ignore[arg-type]  # Unknown is left


def absent_null_and_value_are_told_apart(update: v1.SessionInfoUpdate, call: v1.ToolCall) -> None:
    assert_type(update.title, str | UnsetType | None)
    if update.title is not UNSET and update.title is not None:
        assert_type(update.title, str)
    assert_type(call.content_or_default, Sequence[v1.ToolCallContent])
    assert_type(call.kind_or_default, v1.ToolKind)
    assert_type(call.raw_input, Any)


def enums_are_open() -> None:
    v1.PromptResponse("end_turn")
    v1.PromptResponse("_new_reason")
    v1.PromptResponse(5)  # type: ignore[arg-type]  # no string


def a_list_of_one_variant_is_a_list_of_blocks(blocks: list[TextContent]) -> v1.PromptRequest:
    return v1.PromptRequest("s", blocks)


def decode_gives_the_type_it_was_asked_for() -> None:
    assert_type(decode(v1.PromptRequest, b""), v1.PromptRequest)
    assert_type(decode(v1.UpdateFrame, b"").params.update, v1.SessionUpdate)


def members_are_checked() -> None:
    v1.TextContent()  # type: ignore[call-arg]  # text is required
    v1.TextContent("hi").text = "x"  # type: ignore[misc]  # frozen
    v1.NoSuchType  # type: ignore[attr-defined]  # noqa: B018

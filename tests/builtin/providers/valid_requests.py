"""What providers refuse in a conversation, by wire form: calls without results, roles in a wrong order, empty texts."""

from __future__ import annotations

from itertools import pairwise
from typing import Any


def problems_of(body: dict[str, Any]) -> list[str]:
    """What is wrong with the conversation of a request; empty if a provider accepts it."""
    if "contents" in body:
        return _of_gemini(body["contents"])
    if "input" in body:
        return _of_responses(body["input"])
    is_chat = any(message["role"] in ("system", "tool", "developer") for message in body["messages"])
    return _of_chat(body["messages"]) if is_chat else _of_anthropic(body["messages"])


def _of_anthropic(messages: list[dict[str, Any]]) -> list[str]:
    found = _between_users([message["role"] for message in messages])
    for message, following in zip(messages, [*messages[1:], None], strict=True):
        blocks = message["content"] if isinstance(message["content"], list) else [{"type": "text"}]
        if not blocks:
            found.append("a message is empty")
        calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        answers = following["content"] if following is not None else []
        given = [block["tool_use_id"] for block in answers if isinstance(block, dict) and "tool_use_id" in block]
        if calls != given and sorted(calls) != sorted(given):
            found.append(f"calls {calls} are followed by the results {given}")
        types = [block["type"] for block in blocks]
        if "tool_result" in types and types != sorted(types, key=lambda each: each != "tool_result"):
            found.append("results are not at the beginning of their message")
        found += ["a text is empty" for block in blocks if block["type"] == "text" and block.get("text") == ""]
    return found


def _of_chat(messages: list[dict[str, Any]]) -> list[str]:
    found, waiting = [], set[str]()
    roles = [message["role"] for message in messages]
    if ("user", "user") in pairwise(roles):
        found.append("two messages of the user follow each other")
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                found.append(f"a result without its call: {message['tool_call_id']}")
            waiting.discard(message["tool_call_id"])
            continue
        if waiting:
            found.append(f"calls without results: {sorted(waiting)}")
        waiting = {call["id"] for call in message.get("tool_calls") or ()}
        if not message.get("content") and not waiting:
            found.append(f"a message of {message['role']} is empty")
    return [*found, *([f"calls without results at the end: {sorted(waiting)}"] if waiting else [])]


def _of_responses(items: list[dict[str, Any]]) -> list[str]:
    found, calls = [], set[str]()
    answered: set[str] = set()
    for item in items:
        if item.get("type") == "function_call":
            if item["call_id"] in calls:
                found.append(f"two calls have the id {item['call_id']}")
            calls.add(item["call_id"])
        elif item.get("type") == "function_call_output":
            if item["call_id"] not in calls or item["call_id"] in answered:
                found.append(f"a result without its call: {item['call_id']}")
            answered.add(item["call_id"])
    return [*found, *([f"calls without results: {sorted(calls - answered)}"] if calls - answered else [])]


def _of_gemini(contents: list[dict[str, Any]]) -> list[str]:
    found = _between_users([content["role"] for content in contents])
    for content, following in zip(contents, [*contents[1:], None], strict=True):
        parts = content["parts"]
        if not parts:
            found.append("a message is empty")
        calls = [part["functionCall"]["name"] for part in parts if "functionCall" in part]
        answers = following["parts"] if following is not None else []
        given = [part["functionResponse"]["name"] for part in answers if "functionResponse" in part]
        if sorted(calls) != sorted(given):
            found.append(f"calls {calls} are followed by the results {given}")
    return found


def _between_users(roles: list[str]) -> list[str]:
    """These providers put several messages of one role together, but want the user at both ends."""
    return [] if roles[0] == roles[-1] == "user" else [f"the roles begin with {roles[:2]} and end with {roles[-2:]}"]

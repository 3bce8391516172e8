"""Turns in the forms of OpenAI and Google whose second request depends on what the first answer had in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builtin.fixtures import FakeTool, open_fixture
from tests.builtin.providers.server import WIRES, Answer, ProviderServer, refused, text_answer, thought, use
from tests.interop.model_server.question import ToolUse


async def asked_in_turn(
    form: str, folder: Path, monkeypatch: pytest.MonkeyPatch, *answers: Answer, prompts: int = 1
) -> list[dict[str, Any]]:
    """The bodies of all requests of a session whose tool is `look`."""
    wire = WIRES[form]
    with ProviderServer(*answers) as server:
        for name, value in wire.variables(server.url).items():
            monkeypatch.setenv(name, value)
        model = wire.make()
        async with open_fixture(folder) as fixture:
            fixture.model = model
            fixture.add(FakeTool("look"))
            for number in range(prompts):
                end = await fixture.prompt(f"go {number}")
                assert end.error is None
                await fixture.reopen()
        await model.close()
    return [asked.body for asked in server.asked]


def changed(event: Any, member: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """An event in which each object that has this member is changed."""
    if isinstance(event, list):
        return [changed(each, member, change) for each in event]
    if not isinstance(event, dict):
        return event
    event = {name: changed(value, member, change) for name, value in event.items()}
    return change(event) if member in event else event


def with_signature(event: Any) -> Any:
    return changed(event, "functionCall", lambda part: {**part, "thoughtSignature": "c2ln"})


def encrypted(event: Any) -> Any:
    return changed(event, "summary", lambda item: {**item, "encrypted_content": "gAAA"})


WRONG = ToolUse(use("look").tool, {"value": ["not", "a", "text"]})


async def test_a_call_with_wrong_arguments_keeps_its_signature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gemini refuses a request in which a call has lost its signature."""
    answer = Answer((WRONG,), rewrite=with_signature)
    _, again = await asked_in_turn("google", tmp_path, monkeypatch, answer, text_answer("done"))
    (part,) = again["contents"][1]["parts"]
    assert part["thoughtSignature"] == "c2ln"
    assert "wrong" in again["contents"][2]["parts"][0]["functionResponse"]["response"]["error"]


async def test_a_call_with_wrong_arguments_keeps_its_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = thought("hm", WRONG)._replace(rewrite=encrypted)
    _, again = await asked_in_turn("openai-responses", tmp_path, monkeypatch, answer, text_answer("done"))
    reasoning, call, result = again["input"][1:]
    assert reasoning["encrypted_content"] == "gAAA"
    assert call["id"].startswith("fc_")
    assert call["call_id"] == result["call_id"]


async def test_signatures_and_reasoning_are_stored_with_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session is read from the store again before the second prompt."""
    first = Answer((use("look", value="a"),), rewrite=with_signature)
    bodies = await asked_in_turn(
        "google", tmp_path / "g", monkeypatch, first, text_answer("one"), text_answer("two"), prompts=2
    )
    assert bodies[2]["contents"][1]["parts"][0]["thoughtSignature"] == "c2ln"
    second = thought("hm", use("look", value="a"))._replace(rewrite=encrypted)
    bodies = await asked_in_turn(
        "openai-responses", tmp_path / "o", monkeypatch, second, text_answer("one"), text_answer("two"), prompts=2
    )
    assert bodies[2]["input"][1]["encrypted_content"] == "gAAA"


@pytest.mark.parametrize(
    ("form", "answer", "message", "mark"),
    [
        (
            "openai-responses",
            thought("hm", use("look", value="a"))._replace(rewrite=encrypted),
            "The encrypted content gAAA could not be verified.",
            "gAAA",
        ),
        (
            "google",
            Answer((use("look", value="a"),), rewrite=with_signature),
            "Thought signature is not valid.",
            "c2ln",
        ),
    ],
)
async def test_thoughts_that_a_server_cannot_read_do_not_end_the_session(
    form: str, answer: Answer, message: str, mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key may belong to another organisation now, or the address to another server."""
    _, with_mark, without, later = await asked_in_turn(
        form, tmp_path, monkeypatch, answer, refused(400, message), text_answer("one"), text_answer("two"), prompts=2
    )
    assert mark in json.dumps(with_mark)
    assert mark not in json.dumps(without)
    assert mark not in json.dumps(later)


async def test_an_answer_longer_than_a_response_is_one_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Google cuts a long answer and continues it in the response to the same request with a token."""

    def cut(event: Any) -> Any:
        return changed(
            event,
            "finishReason",
            lambda candidate: {**candidate, "finishReason": "CONTINUATION", "continuationToken": "dG9r"},
        )

    first, second, later = await asked_in_turn(
        *("google", tmp_path, monkeypatch),
        *(text_answer("one ")._replace(rewrite=cut), text_answer("two"), text_answer("three")),
        prompts=2,
    )
    assert second == {**first, "continuationToken": "dG9r"}
    assert later["contents"][1] == {"role": "model", "parts": [{"text": "one two"}]}
    assert "continuationToken" not in later

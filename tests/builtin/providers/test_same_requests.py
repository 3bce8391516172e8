"""Our requests next to those that the providers' own packages make of the same conversation, through pydantic-ai."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.builtin.models.model import ModelRequest
from dragoman.builtin.models.package.provider import ProviderModel
from dragoman.builtin.models.wire_forms.form import WireForm
from dragoman.builtin.models.wire_forms.gemini import GeminiForm
from dragoman.builtin.models.wire_forms.responses import ResponsesForm
from dragoman.uistream.messages import FilePart, Part, ReasoningPart, TextPart
from tests.builtin.providers.forms import PDF, PNG, agent, body_of, conversation, done, target_of, user
from tests.builtin.providers.server import WIRES, ProviderServer, text_answer

FORMS: dict[str, tuple[type[ResponsesForm] | type[GeminiForm], str, str]] = {
    "openai-responses": (ResponsesForm, "openai:gpt-5", "input"),
    "google": (GeminiForm, "google:gemini-3.8-flash", "contents"),
}
PICTURE = [{"data": PNG, "media_type": "image/png"}]


def signed(provider: str, *, is_old: bool = False) -> list[Part]:
    """A step of thoughts, words and two calls, with what each path keeps of it. Old: by the package only."""

    def metadata(package: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
        kept = {"pydantic-ai": {"provider": provider, "system": provider, **package}}
        return kept if is_old else {**kept, provider: ours}

    first, second = done("call_1", "a picture", images=PICTURE), done("call_2", "two lines\nof text")
    if provider == "openai":
        first.provider_metadata = metadata({"id": "fc_1"}, {"id": "fc_1"})
        second.provider_metadata = metadata({"id": "fc_2"}, {"id": "fc_2"})
        thought = metadata({"id": "rs_1", "signature": "gAAA"}, {"id": "rs_1", "encrypted": "gAAA"})
        more = metadata({"id": "rs_1"}, {"id": "rs_1"})
        text = metadata({"id": "msg_1"}, {"id": "msg_1"})
        thoughts: list[Part] = [
            ReasoningPart("Where?", provider_metadata=thought),
            ReasoningPart("Here!", provider_metadata=more),
        ]
        return [*thoughts, TextPart("I look.", provider_metadata=text), first, second]
    details = {"details": {"thought_signature": "c2lnMQ=="}}
    first.provider_metadata = metadata(details, {"signature": "c2lnMQ=="})
    thought = metadata({}, {"is_thought": True})
    return [ReasoningPart("Where?", provider_metadata=thought), TextPart("I look."), first, second]


def conversations(provider: str) -> dict[str, ModelRequest]:
    image, pdf = f"data:image/png;base64,{PNG}", f"data:application/pdf;base64,{PDF}"
    files = user(TextPart("see"), FilePart(image, "image/png"), FilePart(pdf, "application/pdf", "filename.pdf"))
    go = user(TextPart("go"), TextPart("on"))
    return {
        "text": conversation(go, agent(TextPart("one")), user(TextPart("zwei ✓"))),
        "files": conversation(files),
        "unsigned": conversation(go, agent(TextPart("I look."), done("1"), done("2"))),
        "thoughts": conversation(go, agent(*signed(provider)), go),
        "old thoughts": conversation(go, agent(*signed(provider, is_old=True)), go),
    }


CASES = [(form, case) for form in FORMS for case in ("text", "files", "unsigned", "thoughts", "old thoughts")]


async def body_of_package(form: str, request: ModelRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    _, name, _ = FORMS[form]
    with ProviderServer(text_answer("hi")) as server:
        for variable, value in WIRES[form].variables(server.url).items():
            monkeypatch.setenv(variable, value)
        model = ProviderModel(name)
        try:
            [_ async for _ in model.stream(request)]
        finally:
            await model.close()
    return server.asked[0].body


SPELLINGS = {
    "inline_data": "inlineData",
    "mime_type": "mimeType",
    "return_value": "output",
    "parameters_json_schema": "parametersJsonSchema",
    "include_thoughts": "includeThoughts",
    "thinking_level": "thinkingLevel",
}


def plain(value: Any) -> Any:
    """A value without what means the same in two spellings.

    The packages of Google write some members in snake case. The result of a tool is an object whose only member is ours
    to name: Google documents `output`, pydantic-ai writes `return_value`. Arguments are JSON within JSON.
    """
    if isinstance(value, list):
        return [plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {SPELLINGS.get(name, name): plain(each) for name, each in value.items()}
    if isinstance(found.get("arguments"), str):
        found["arguments"] = json.loads(found["arguments"])
    return found


@pytest.mark.parametrize(("form", "case"), CASES)
async def test_the_conversation_is_the_same(form: str, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, name, member = FORMS[form]
    request = conversations(name.partition(":")[0])[case]
    theirs = await body_of_package(form, request, monkeypatch)
    ours: WireForm = make(target_of(name))
    assert plain(body_of(ours, request)[member]) == plain(theirs[member])


@pytest.mark.parametrize("form", FORMS)
async def test_tools_and_settings_are_the_same(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, name, _ = FORMS[form]
    request = conversation(user(TextPart("go")), effort="low", max_output_tokens=99)
    theirs = plain(await body_of_package(form, request, monkeypatch))
    ours = plain(body_of(make(target_of(name)), request))
    if form == "google":
        theirs["systemInstruction"].pop("role")
        # What the API does anyway.
        assert theirs.pop("toolConfig") == {"functionCallingConfig": {"mode": "AUTO"}}
        assert theirs["generationConfig"].pop("responseModalities") == ["TEXT"]
    else:
        assert theirs.pop("tool_choice") == "auto"
        assert ours["reasoning"].pop("summary") == "auto"
    assert ours == theirs

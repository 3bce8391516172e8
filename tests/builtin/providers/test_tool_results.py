"""What every wire form sends of a tool's result: errors as plain text, documents as documents."""

from typing import Any

import msgspec
import pytest

from dragoman.builtin.models.wire_forms.anthropic import AnthropicForm
from dragoman.builtin.models.wire_forms.chat import ChatForm
from dragoman.builtin.models.wire_forms.gemini import GeminiForm
from dragoman.builtin.models.wire_forms.responses import ResponsesForm
from dragoman.uistream.messages import TextPart, ToolPart
from tests.builtin.providers.forms import PDF, agent, body_of, conversation, done, target_of, user

FORMS: dict[str, Any] = {
    "anthropic:claude-sonnet-4-5": AnthropicForm,
    "openai-chat:gpt-4o": ChatForm,
    "openai:gpt-5": ResponsesForm,
    "google:gemini-2.5-pro": GeminiForm,
}
WHY = 'there is no file "a.py"; find its right name with glob.\nDid you mean b.py?'


def strings_in(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for each in inner for text in strings_in(each)]


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("state", ["output-error", "input-error", "output-available"])
def test_an_error_reaches_the_model_as_the_text_it_is(name: str, state: str) -> None:
    if state == "output-available":
        call = done("call_1", WHY, is_error=True, exit_code=1)
    else:
        call = ToolPart("call_1", "look", "output-error", {"value": "x"}, error_text=WHY)
    body = body_of(FORMS[name](target_of(name)), conversation(user(TextPart("go")), agent(call)))
    texts = strings_in(body)
    assert WHY in texts
    assert msgspec.json.encode(WHY).decode() not in texts
    assert not any("exit_code" in text or "error_text" in text for text in texts)


@pytest.mark.parametrize("name", [name for name in FORMS if "chat" not in name])
def test_a_document_in_a_result_is_sent_as_one(name: str) -> None:
    document = {"uri": "file:///w/a.pdf", "blob": PDF, "media_type": "application/pdf"}
    call = done("call_1", "[a.pdf]", resources=[document])
    texts = strings_in(body_of(FORMS[name](target_of(name)), conversation(user(TextPart("go")), agent(call))))
    assert any(text in (PDF, f"data:application/pdf;base64,{PDF}") for text in texts)

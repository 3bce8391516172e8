"""`question` asks the user, in whatever way the editor has."""

from pathlib import Path
from typing import Any

import pytest

from dragoman.client.connect import ClientOptions
from dragoman.schema import v1
from dragoman.testing import ScriptedClient
from tests.builtin.tools.fixtures import TOOLS, FakeContext, with_editor


class WithoutForms(ScriptedClient):
    """A client that answers permission requests with the first option and cannot show a form."""

    def options(self) -> ClientOptions:
        return super().options() | {"elicitation": None}


CHOICES = [{"label": "Red", "description": "warm"}, "Blue", {"label": " Red "}, ""]


@pytest.mark.parametrize(
    ("form", "arguments", "answer"),
    [
        ({"answer": "Red"}, {"choices": CHOICES}, "The user answered: Red"),
        ({"answer": ["Red", "Blue"]}, {"choices": CHOICES, "multiple": True}, "The user answered: Red, Blue"),
        ({"answer": []}, {"choices": CHOICES, "multiple": True}, "The user chose none of them."),
        ({"answer": "green"}, {}, "The user answered: green"),
    ],
)
async def test_the_answer_of_the_user_is_returned(
    tmp_path: Path, form: dict[str, Any], arguments: dict[str, Any], answer: str
) -> None:
    client = ScriptedClient(form=form)
    async with with_editor(tmp_path, client) as context:
        assert await context.text("question", question=" Which? ", **arguments) == answer
    [asked] = client.answers.asked
    assert isinstance(asked, v1.ElicitationFormMode)
    assert asked.message == "Which?"


async def test_a_question_that_the_user_cancels_is_reported_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = ScriptedClient(form=None)

    async def cancel(*values: object, **members: object) -> v1.CancelElicitation:
        return v1.CancelElicitation()

    monkeypatch.setattr(client.answers, "form", cancel)
    async with with_editor(tmp_path, client) as context:
        output = await context.call("question", question="Which?", choices=CHOICES)
    assert output.text.startswith("The user cancelled the question.")
    assert not output.is_error


async def test_a_user_who_declines_is_reported_as_such(tmp_path: Path) -> None:
    async with with_editor(tmp_path, ScriptedClient(form=None)) as context:
        output = await context.call("question", question="Which?", choices=CHOICES)
    assert output.text.startswith("The user declined to answer.")
    assert not output.is_error


async def test_without_a_client_to_ask_it_is_an_error(tmp_path: Path) -> None:
    assert "no user can be asked" in await FakeContext(tmp_path).refusal("question", question="Which?")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "Which?"),
        ({"choices": CHOICES}, "Which?\n\n- Red: warm\n- Blue"),
        ({"choices": ["a", "b"], "multiple": True}, "Which?\n\n- a\n- b\n\nMore than one can be chosen."),
    ],
)
async def test_a_client_without_forms_is_asked_in_words_and_never_for_permission(
    tmp_path: Path, arguments: dict[str, Any], words: str
) -> None:
    client = WithoutForms()
    async with with_editor(tmp_path, client) as context:
        assert "The turn ends now" in await context.text("question", question="Which?", **arguments)
        assert context.questions == [words]
    assert client.asked == []


async def test_an_empty_question_is_not_asked(tmp_path: Path) -> None:
    client = ScriptedClient(form={"answer": "x"})
    async with with_editor(tmp_path, client) as context:
        assert "the question is empty" in await context.refusal("question", question=" ")
    assert client.answers.asked == []


def test_a_question_needs_no_permission(tmp_path: Path) -> None:
    assert FakeContext(tmp_path).requests("question", question="Which?") == ()


@pytest.mark.parametrize(
    ("arguments", "title"),
    [
        ({}, "Ask a question"),
        ({"question": 3}, "Ask a question"),
        ({"question": "Which\ncolour?"}, "Ask: Which colour?"),
    ],
)
def test_a_title_is_the_question(arguments: dict[str, object], title: str) -> None:
    assert TOOLS["question"].preview(arguments, "/w").title == title

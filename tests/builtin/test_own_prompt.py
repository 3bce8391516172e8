"""What users and clients put into the system prompt: options, settings, `systemPrompt` and headless runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.builtin.context.prompt_texts import ASKING, HEADLESS
from dragoman.errors import RequestError
from dragoman.schema import v1
from tests.builtin.http_service import Service, ask, recording_model
from tests.builtin.providers.server import VARIABLES, WIRES, ProviderServer, text_answer
from tests.cli.exec_kit import Place, place

__all__ = ["place"]


def given(mode: str, *texts: str) -> v1.SystemPrompt:
    return v1.SystemPrompt(mode, [v1.TextContent(text) for text in texts])


async def prompt_of(agent: Any, service: Service, session_id: str) -> None:
    await agent.call("session/prompt", v1.PromptRequest(session_id, [v1.TextContent("say hello")]))


async def test_a_client_can_add_to_the_system_prompt_and_it_stays_with_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, model = (
        Service(tmp_path, unstable=True, append_system_prompt="Of the agent."),
        recording_model(monkeypatch),
    )
    async with service.client(unstable=True) as agent:
        request = v1.NewSessionRequest(str(service.project), [], system_prompt=given("append", "One.", "Two."))
        session_id = (await agent.call("session/new", request)).session_id
        await prompt_of(agent, service, session_id)
        first = model.requests[-1].system
        assert first.startswith("You are Dragoman")
        assert "Of the agent.\n\nOne.\n\nTwo.\n\nYou work in" in first
    async with service.client(unstable=True) as agent:
        await agent.call("session/resume", v1.ResumeSessionRequest(session_id, str(service.project), []))
        await prompt_of(agent, service, session_id)
        assert model.requests[-1].system == first
        replaced = v1.LoadSessionRequest(
            session_id=session_id, cwd=str(service.project), mcp_servers=[], system_prompt=given("override", "Poet.")
        )
        await agent.call("session/load", replaced)
        await prompt_of(agent, service, session_id)
        assert model.requests[-1].system.startswith("Poet.\n\nOf the agent.\n\nYou work in")


async def test_a_system_prompt_that_is_not_text_is_refused(tmp_path: Path) -> None:
    service = Service(tmp_path, unstable=True)
    async with service.client(unstable=True) as agent:
        image = v1.SystemPrompt("append", [v1.TextContent("a"), v1.ImageContent("aW1n", "image/png")])
        with pytest.raises(RequestError, match="must be text") as caught:
            await agent.call("session/new", v1.NewSessionRequest(str(service.project), [], system_prompt=image))
        assert caught.value.code == -32602
        wrong = v1.NewSessionRequest(str(service.project), [], system_prompt=given("sideways", "a"))
        with pytest.raises(RequestError) as caught:
            await agent.call("session/new", wrong)
        assert caught.value.code == -32602
        assert not (await agent.call("session/list", v1.ListSessionsRequest())).sessions


async def test_the_ability_is_offered_with_unstable_only(tmp_path: Path) -> None:
    async with Service(tmp_path / "a", unstable=True).client(unstable=True) as agent:
        offered = agent.capabilities.session_capabilities
        assert offered
        assert offered.system_prompt
    async with Service(tmp_path / "b").client() as agent:
        assert not (agent.capabilities.session_capabilities or v1.SessionCapabilities()).system_prompt


@pytest.mark.parametrize(
    ("meta", "is_headless"),
    [({}, False), ({"dragoman": {"headless": True}}, True), ({"dragoman": {"headless": "yes"}}, False)],
)
async def test_a_client_without_a_user_announces_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meta: dict[str, Any], is_headless: bool
) -> None:
    service, model = Service(tmp_path), recording_model(monkeypatch)
    async with service.session(meta=meta) as session:
        await ask(session, "say hello")
    assert (HEADLESS in model.requests[0].system) == is_headless
    assert (ASKING in model.requests[0].system) == (not is_headless)


def requested(place: Place, *words: str) -> dict[str, Any]:
    """The request of one run of `exec` to a model of a provider."""
    for name in VARIABLES:
        place.environment.pop(name, None)
    wire = WIRES["openai-chat"]
    with ProviderServer(text_answer("done")) as server:
        place.environment |= wire.variables(server.url)
        done = place.run("--model", wire.model, "--output", "json", *words, "Do it")
        assert done.code == 0, done.err
        return server.asked[0].body


def test_exec_without_a_terminal_is_headless_and_passes_on_what_is_added(place: Place) -> None:
    body = requested(place, "--append-system-prompt", "Speak French.")
    system, user = body["messages"]
    assert system["role"] == "system"
    assert "\n\nSpeak French.\n\nYou work in" in system["content"]
    assert "No user can answer or permit anything" in system["content"]
    assert "Date:" not in system["content"]
    assert user["content"].startswith("Do it\n\n<environment>\nDate: ")


def test_settings_replace_and_extend_the_system_prompt(place: Place) -> None:
    config = place.home / "dragoman" / "config"
    config.mkdir(parents=True)
    (config / "poet.md").write_text("You are a poet.\n")
    (config / "settings.json").write_text(json.dumps({"system_prompt": "poet.md", "append_system_prompt": "Rhyme."}))
    content = requested(place)["messages"][0]["content"]
    assert content.startswith("You are a poet.")
    assert "\n\nRhyme.\n\n" in content
    assert "Dragoman" not in content


def test_wrong_options_are_refused_with_what_to_do(place: Place) -> None:
    other = place.run("-a", "scripted", "--append-system-prompt", "x", "say hello")
    assert other.code == 2
    assert "--append-system-prompt: scripted does not take it" in other.err
    missing = place.run("--system", "prompts/none.md", verb="agent")
    assert missing.code == 2
    assert "--system: the file prompts/none.md cannot be read: No such file" in missing.err
    assert "hint: " in missing.err
    (place.project / "binary.md").write_bytes(b"\xff\xfe")
    binary = place.run("--system", "binary.md", verb="agent")
    assert "it is not text in UTF-8" in binary.err
    empty = place.run("--system", "", verb="agent")
    assert empty.code == 2
    assert "must not be empty" in empty.err


def test_the_option_takes_a_file_or_the_text_itself(place: Place) -> None:
    (place.project / "own prompt").write_text("You come from a file.")
    for option, beginning in (
        ("own prompt", "You come from a file."),
        ("You are terse: obey.", "You are terse: obey."),
    ):
        wire = WIRES["openai-chat"]
        with ProviderServer(text_answer("done")) as server:
            place.environment |= wire.variables(server.url)
            words = place.words("agent", "--model", wire.model, "--system", option)
            done = place.run("Do it", "--", *words)
            assert done.code == 0, done.err
            assert server.asked[0].body["messages"][0]["content"].startswith(beginning)

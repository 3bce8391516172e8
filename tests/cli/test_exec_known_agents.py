"""Well-known agents: the mode in which they ask, the environment they get, and what the settings allow them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.exec_kit import Place, place

__all__ = ["place"]

KEYS = {
    "ANTHROPIC_API_KEY": "anthropic-key",
    "OPENAI_API_KEY": "openai-key-1",
    "MISTRAL_API_KEY": "mistral-key-1",
    "GITHUB_TOKEN": "github-token",
}


def configure(place: Place, name: str, **members: Any) -> None:
    config = place.home / "dragoman" / "config"
    config.mkdir(parents=True, exist_ok=True)
    command, *args = place.words(odd=members.pop("odd"))[4:]
    entry = {"command": command, "args": args, **members}
    (config / "settings.json").write_text(json.dumps({"agent_servers": {name: entry}}))


def environment(place: Place, *words: str, odd: str | None = "prints-environment") -> dict[str, str]:
    done = place.run("--output", "json", *words, "go", odd=odd)
    assert done.code == 0, done.err
    found: dict[str, str] = json.loads(done.result["text"])
    return found


# The mode in which an agent asks


def test_vibe_is_put_into_the_mode_in_which_it_asks(place: Place) -> None:
    place.name_agent("vibe-acp")
    done = place.run("--output", "json", "go", odd="starts-in-accept-edits")
    assert done.result["text"] == "in mode ask"
    assert "the agent is in its mode ask, in which it asks; it starts in accept-edits" in done.err


@pytest.mark.parametrize("flags", [("--mode", "accept-edits"), ("--dangerously-allow-all",)])
def test_a_mode_that_the_user_chose_is_kept(place: Place, flags: tuple[str, ...]) -> None:
    place.name_agent("vibe-acp")
    done = place.run(*flags, "--output", "json", "go", odd="starts-in-accept-edits")
    assert done.result["text"] == "in mode accept-edits"
    assert "in its mode" not in done.err


def test_an_agent_that_is_in_its_asking_mode_is_left_alone(place: Place) -> None:
    place.name_agent("vibe-acp")
    done = place.run("--output", "json", "go", odd="starts-in-ask")
    assert done.result["text"] == "in mode ask"
    assert "in its mode" not in done.err


def test_the_mode_of_an_unknown_agent_is_its_own_matter(place: Place) -> None:
    done = place.run("--output", "json", "go", odd="starts-in-accept-edits")
    assert done.result["text"] == "in mode accept-edits"
    assert "in its mode" not in done.err


@pytest.mark.parametrize(
    ("agent", "odd", "text"),
    [
        ("copilot", "has-option-allow_all=on", "allow_all=off; in mode https://acp.example/modes#agent"),
        ("cline", "has-option-auto_approve=true", "auto_approve=False; in mode act"),
    ],
)
def test_an_option_that_keeps_a_known_agent_from_asking_is_switched_off(
    place: Place, agent: str, odd: str, text: str
) -> None:
    place.name_agent(agent)
    done = place.run("--output", "json", "go", odd=odd)
    assert done.result["text"] == text
    assert "so that it asks" in done.err
    done = place.run("--dangerously-allow-all", "--output", "json", "go", odd=odd)
    assert done.result["text"].startswith(odd.removeprefix("has-option-").replace("true", "True"))


@pytest.mark.parametrize(("mode", "is_stated"), [("dont_ask", True), ("default", False)])
def test_a_mode_in_which_the_agent_acts_without_asking_is_stated(place: Place, mode: str, is_stated: bool) -> None:
    place.name_agent("hermes-acp")
    done = place.run("--mode", mode, "--output", "json", "go", odd="starts-in-default")
    assert done.result["text"] == f"in mode {mode}"
    sentence = f"dragoman: warning: the agent is in its mode {mode}, in which it acts without asking"
    assert (sentence in done.err) == is_stated
    assert "\x1b" not in done.err


def test_an_agent_that_runs_commands_without_asking_is_named_as_such(place: Place) -> None:
    place.name_agent("hermes-acp")
    done = place.run("--output", "json", "go", odd="starts-in-default")
    assert done.err.count("hermes runs commands without asking; rules see that only afterwards") == 1


# The environment of an agent


def test_a_known_agent_does_not_get_the_keys_of_other_providers(place: Place) -> None:
    place.environment |= KEYS
    place.name_agent("vibe-acp")
    seen = environment(place)
    assert KEYS.keys() & seen.keys() == {"MISTRAL_API_KEY", "GITHUB_TOKEN"}


def test_an_unknown_agent_and_one_for_all_providers_inherit_every_key(place: Place) -> None:
    place.environment |= KEYS
    assert KEYS.keys() <= environment(place).keys()
    place.name_agent("cline")
    assert KEYS.keys() <= environment(place).keys()


def test_a_key_that_the_settings_give_to_an_agent_is_passed_on(place: Place) -> None:
    place.environment |= KEYS
    configure(place, "vibe", odd="prints-environment", env={"OPENAI_API_KEY": "another-key-1"})
    seen = environment(place, "-a", "vibe", odd=None)
    assert KEYS.keys() & seen.keys() == {"MISTRAL_API_KEY", "GITHUB_TOKEN", "OPENAI_API_KEY"}


@pytest.mark.parametrize(
    ("allowed", "keys"),
    [
        ([], set()),
        (["MISTRAL_API_KEY"], {"MISTRAL_API_KEY"}),
        (["*_API_KEY"], {"MISTRAL_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"}),
        (["*"], set(KEYS)),
    ],
)
def test_the_settings_can_narrow_the_environment(place: Place, allowed: list[str], keys: set[str]) -> None:
    place.environment |= {**KEYS, "OTHER": "x"}
    configure(place, "vibe", odd="prints-environment", env_allow=allowed, env={"OWN": "y"})
    seen = environment(place, "-a", "vibe", odd=None)
    assert KEYS.keys() & seen.keys() == keys
    assert ("OTHER" in seen) == ("*" in allowed)
    assert (seen["OWN"], seen["PATH"], seen["HOME"]) == ("y", place.environment["PATH"], str(place.home))


# Everything is allowed by the settings


def test_the_settings_can_allow_everything_to_one_agent_and_that_is_reported(place: Place) -> None:
    configure(place, "careless", odd="writes-unasked", dangerously_allow_all=True)
    done = place.run("-a", "careless", "--output", "json", "go")
    assert done.code == 0, done.err
    assert done.result["dangerously_allow_all"] is True
    assert (place.project / "new.txt").exists()
    assert "dangerously_allow_all (" in done.err
    assert "everything the agent asks for is allowed, protected files included" in done.err
    assert place.run("--output", "json", "go", odd="writes-unasked").code == 5


def test_a_rule_that_denies_holds_for_an_agent_to_which_everything_is_allowed(place: Place) -> None:
    configure(place, "careless", odd="writes-unasked", dangerously_allow_all=True)
    done = place.run("-a", "careless", "--deny", "edit", "--output", "json", "go")
    assert not (place.project / "new.txt").exists()
    assert [permission["action"] for permission in done.result["permissions"]] == ["deny"]


# Reading through a permission request


@pytest.mark.parametrize(
    ("file", "flags", "answer", "code"),
    [
        ("README.md", (), "allow_once", 0),
        ("README.md", ("--deny", "read:README.md"), "reject_once", 0),
        ("../secret.txt", (), "cancelled", 5),
    ],
)
def test_reading_a_file_of_the_project_needs_no_rule_if_the_agent_asks(
    place: Place, file: str, flags: tuple[str, ...], answer: str, code: int
) -> None:
    (place.project / file).write_text("text")
    done = place.run("--output", "json", *flags, str(place.project / file), odd="reads-like-cline")
    assert (done.result["text"], done.code) == (answer, code)

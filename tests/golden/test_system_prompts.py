"""The system prompt in each variant: it is what was read and agreed on, it is short, and only its end changes."""

from __future__ import annotations

import itertools
import re

import pytest

from dragoman.builtin.context import prompt_texts
from dragoman.builtin.context.system_prompt import OwnPrompt, family_of, system_prompt
from dragoman.builtin.tools.table import built_in_tools
from dragoman.policy.modes import MODES
from tests.golden.system_prompts import FOLDER, INSTRUCTIONS, MODELS, MODES_WITH_TEXT, SKILLS, prompt, variants
from tests.project.test_vocabulary import find_replaced


def test_there_is_a_golden_file_for_each_variant_and_no_other() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(variants())


@pytest.mark.parametrize("name", variants())
def test_a_variant_is_its_golden_file(name: str) -> None:
    assert variants()[name] == (FOLDER / name).read_text(), "rewrite it: python -m tests.golden.system_prompts"


@pytest.mark.parametrize("name", variants())
def test_a_variant_has_few_words(name: str) -> None:
    own_words = len(variants()[name].replace(INSTRUCTIONS, "").replace(SKILLS, "").split())
    assert own_words <= (400 if name.startswith("other") else 900)


@pytest.mark.parametrize("family", MODELS)
@pytest.mark.parametrize("is_headless", [False, True])
def test_only_the_end_differs_between_modes(family: str, is_headless: bool) -> None:
    texts = {mode: prompt(family, mode, is_headless=is_headless) for mode in MODES}
    assert set(MODES_WITH_TEXT) < set(texts)
    for mode, text in texts.items():
        assert text.startswith(texts["ask"])
        assert (len(text) > len(texts["ask"])) == (mode == "plan"), f"mode {mode} has text of its own: add golden files"


@pytest.mark.parametrize("family", MODELS)
def test_a_headless_run_differs_only_behind_everything_a_session_keeps(family: str) -> None:
    asking, headless = prompt(family), prompt(family, is_headless=True)
    same = len(asking) - len(prompt_texts.ASKING)
    assert asking[:same] == headless[:same]
    assert "No user can answer" in headless
    assert "No user can answer" not in asking
    assert "Ask the user" not in headless


@pytest.mark.parametrize("family", MODELS)
def test_each_family_reads_what_matters(family: str) -> None:
    text = prompt(family)
    for words in ("Keep going until", "test", "commit", "revert", "`path:line`", "data", "refused", "project"):
        assert words in text, words


def test_families_differ_in_what_their_models_need() -> None:
    texts = {family: prompt(family) for family in MODELS}
    assert len(set(texts.values())) == len(texts)
    assert all("independent calls together" in texts[family] for family in ("claude", "gpt", "gemini"))
    assert "one tool at a time" in texts["other"]
    assert "loop" in texts["gemini"]
    assert "Persist" in texts["gpt"]


def test_the_tools_that_the_prompt_names_exist() -> None:
    named = {word for text in variants().values() for word in re.findall(r"`([a-z_]+)`", text)}
    assert named <= set(built_in_tools())
    assert {"read", "grep", "edit", "bash"} <= named


def test_the_texts_keep_to_the_vocabulary() -> None:
    faults = [
        f"{name}: {fault}"
        for name, text in variants().items()
        for line in text.splitlines()
        for fault in find_replaced(line)
    ]
    assert faults == []


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("anthropic:claude-opus-5", "claude"),
        ("bedrock:us.anthropic.claude-opus-5", "claude"),
        ("openrouter:anthropic/claude-sonnet-5.5", "claude"),
        ("openai:gpt-6.1-sol", "gpt"),
        ("openai:o3-mini", "gpt"),
        ("openai:codex-mini", "gpt"),
        ("google-cloud:gemini-4-argon", "gemini"),
        ("groq:openai/gpt-oss-120b", "other"),
        ("google:gemma-3", "other"),
        ("deepseek:deepseek-v4-pro", "other"),
        ("ollama:qwen3", "other"),
        ("scripted", "other"),
        ("", "other"),
    ],
)
def test_the_family_is_found_in_the_name_of_the_model(model: str, family: str) -> None:
    assert family_of(model) == family


def test_an_own_text_replaces_the_agents_and_an_addition_follows_the_instructions() -> None:
    own = OwnPrompt("You are a poet.", "Rhyme.").with_session(OwnPrompt(append="In French."))
    text = system_prompt("/w", ("/w",), MODES["ask"], "use tabs", own=own)
    places = [text.index(words) for words in ("You are a poet.", "use tabs", "Rhyme.", "In French.", "You work in /w")]
    assert places == sorted(places)
    assert "Dragoman" not in text
    assert OwnPrompt("agent").with_session(OwnPrompt("session")).override == "session"
    assert OwnPrompt("agent").with_session(OwnPrompt()).override == "agent"


def test_the_same_session_always_gives_the_same_bytes() -> None:
    for family, mode in itertools.product(MODELS, MODES):
        assert prompt(family, mode) == prompt(family, mode)

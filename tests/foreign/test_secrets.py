"""What counts as a key."""

from __future__ import annotations

import time

import pytest

from dragoman.foreign.secrets import has_secret, is_secret, masked, referenced
from tests.foreign.homes import ANTHROPIC, GITHUB


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("API_KEY", "abc"),
        ("GITHUB_PERSONAL_ACCESS_TOKEN", "x1"),
        ("DB_PASSWORD", "hunter2"),
        ("Authorization", "Bearer abcdefgh"),
        ("X-Api-Key", "1234"),
        ("ANYTHING", ANTHROPIC),
        ("ANYTHING", "0123456789abcdef0123456789abcdef0123"),
    ],
)
def test_a_key_is_recognised(name: str, value: str) -> None:
    assert is_secret(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("API_KEY", "${API_KEY}"),
        ("Authorization", "Bearer ${TOKEN}"),
        ("LEVEL", "debug"),
        ("PATH", "/usr/local/share/some/long/path/to/a/folder2"),
        ("KEYBOARD", "de"),
        ("MODE", "a-word-with-many-hyphens-and-a-2-in-it"),
    ],
)
def test_other_values_are_not_keys(name: str, value: str) -> None:
    assert not is_secret(name, value)


def test_keys_in_texts_are_hidden_and_become_variables() -> None:
    line = f"curl -H 'Authorization: Bearer {GITHUB}' https://me:pass@x.example/?api_key=abc&x=1 --token=abc123x"
    hidden = masked(line)
    for key in (GITHUB, "me:pass", "api_key=abc", "abc123x"):
        assert key not in hidden
    text, names = referenced("https://me:pass@x.example/?api_key=abc", "URL")
    assert text == "https://${URL}@x.example/?api_key=${URL_2}"
    assert names == ("URL", "URL_2")
    assert not has_secret("npm test -- --watch")


@pytest.mark.parametrize("text", ["a" * 60_000, "token " * 10_000, "://" * 20_000, "key-" * 15_000, "?key" * 15_000])
def test_no_text_makes_the_search_slow(text: str) -> None:
    before = time.process_time()
    masked(text)
    assert time.process_time() - before < 2

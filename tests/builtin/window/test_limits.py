"""The numbers of windows, and the pure parts: rules of the user, checks of summaries, what is cut."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from dragoman.builtin.context.history import cut_text, ends_of
from dragoman.builtin.context.window.facts import Cut, Notes
from dragoman.builtin.context.window.limits import WindowLimits
from dragoman.builtin.context.window.notes import fit_notes, fixed_block, rules_in
from dragoman.builtin.context.window.size import LearnedWindows, is_local, window_of
from dragoman.builtin.context.window.summary import HEADINGS, chunks_of, fault_of
from dragoman.builtin.models.model import ModelRequest, StepEnd
from dragoman.builtin.models.package.provider import ProviderModel
from dragoman.uistream import chunks as c
from tests.builtin.fixtures import open_fixture
from tests.builtin.window.counting_model import GOOD_SUMMARY, CountingModel
from tests.builtin.window.test_compaction import turn, use


@pytest.mark.parametrize(
    ("window", "max_output", "limit"),
    [
        (200_000, None, 176_000),
        (200_000, 8_000, 188_000),
        (128_000, None, 105_000),
        (1_000_000, None, 400_000),
        (32_000, None, 21_000),
        (8_192, None, 5_120),
    ],
)
def test_the_limit_leaves_room_for_the_answer_and_for_errors(window: int, max_output: int | None, limit: int) -> None:
    assert WindowLimits(window, max_output).limit == limit


@pytest.mark.parametrize("window", [1_000, 4_096, 32_000, 200_000, 2_000_000])
@pytest.mark.parametrize("overhead", [0, 500, 3_000])
def test_the_parts_of_a_shortened_conversation_fit_together(window: int, overhead: int) -> None:
    limits = WindowLimits(window)
    assert 0 < limits.tail < limits.limit
    assert limits.prune_at < limits.limit
    assert limits.goal(overhead) <= max(limits.limit, overhead)


@pytest.mark.parametrize(
    "sentence",
    [
        "Never touch secrets.env.",
        "Do not commit anything!",
        "don't use sudo",
        "You must not delete files",
        "Only change files below src/.",
        "Always run the tests first.",
        "Ask me before you push.",
        "Leave the tests alone.",
        "Bitte die Datei nicht ändern.",
    ],
)
def test_what_the_user_forbids_is_found_word_for_word(sentence: str) -> None:
    text = f"Please build the parser.\nIt reads config.toml. {sentence} Thanks"
    assert sentence.rstrip(".!") in "".join(rules_in(text))


def test_other_sentences_are_not_rules() -> None:
    assert list(rules_in("Build the parser. It reads config.toml v1.2. Thanks a lot")) == []


def test_a_summary_needs_its_headings_and_a_bounded_length() -> None:
    assert fault_of(GOOD_SUMMARY, 500) == ""
    assert fault_of(f"Here it is:\n\n### {HEADINGS[0]}:\nx\n## {HEADINGS[2]}\ny\n# {HEADINGS[5].upper()}\nz", 500) == ""
    assert "empty" in fault_of(" \n", 500)
    assert "headings" in fault_of("It went well. Goal and wishes: none", 500)
    assert "too long" in fault_of(GOOD_SUMMARY + "x" * 5_000, 500)


def test_notes_too_long_for_a_small_window_lose_files_first_and_rules_last() -> None:
    notes = Notes("build it", [f"never do {n}" for n in range(5)], [f"r{n}.py" for n in range(60)], ["c.py"], [], ["x"])
    small = fit_notes(notes, 60)
    assert small.read == []
    assert small.rules == notes.rules
    assert len(notes.read) == 60, "the notes given are not changed"
    tiny = fit_notes(notes, 10)
    assert tiny.rules == []
    assert len(fixed_block(tiny)) < 200


def test_chunks_have_every_text_and_a_bounded_size() -> None:
    texts = [f"text {number} " + "x" * 300 for number in range(20)] + ["y" * 10_000]
    chunks = chunks_of(texts, 500)
    assert all(len(chunk) < 500 * 3.5 + 200 for chunk in chunks)
    assert all(f"text {number} " in "".join(chunks) for number in range(20))


def test_a_cut_text_is_always_the_same_and_names_the_file() -> None:
    text = "a" * 100 + "b" * 900
    assert (
        cut_text(text, Cut(0, "/f"))
        == "[the output of 1000 characters was left out to save room; all of it is in /f, read it there]"
    )
    assert cut_text(text, Cut(0)).endswith("run the call again if you need it]")
    cut = ends_of(text, 500, "why")
    assert cut.startswith("a" * 100 + "\n[... 500 characters left out")
    assert cut.endswith("b" * 400)
    assert ends_of("short", 500, "why") == "short"


async def test_the_size_is_learned_stated_or_assumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = CountingModel(9_000)
    async with open_fixture(tmp_path) as fixture:
        learned = LearnedWindows(fixture.session)
        assert window_of(model, learned) == (128_000, False)
        model.context_tokens = 50_000
        assert window_of(model, learned) == (50_000, True)
        await learned.learn(model.name, 9_000)
        assert window_of(model, LearnedWindows(fixture.session)) == (9_000, True)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:8080/v1")
    assert is_local("openai-compatible:x")
    assert is_local("ollama:x")
    assert not is_local("anthropic:claude-sonnet-5-5")
    monkeypatch.setenv("OPENAI_BASE_URL", "https://models.example.org/v1")
    assert not is_local("openai-compatible:x")


async def test_a_size_is_not_called_unknown_before_the_model_is_loaded(tmp_path: Path) -> None:
    """Providers that the package serves are loaded by the first call, which takes seconds."""

    class Loading(CountingModel):
        is_loading = True

        async def stream(self, request: ModelRequest) -> AsyncGenerator[c.Chunk | StepEnd, None]:
            self.is_loading = False
            self.context_tokens = self.loaded_window
            async for item in super().stream(request):
                yield item

        loaded_window: int | None = 50_000

    for size, expected in ((50_000, 0), (None, 1)):
        (tmp_path / str(size)).mkdir()
        async with open_fixture(tmp_path / str(size)) as fixture:
            model = Loading(50_000, steps=1)
            model.loaded_window = size
            use(fixture, model)
            assert await turn(fixture, "go") is None
            titles = [each.data["title"] for each in fixture.seen if isinstance(each, c.Data) and each.name == "notice"]
            assert sum("is not known" in title for title in titles) == expected


def test_the_catalogue_knows_sizes_before_a_package_is_loaded() -> None:
    assert ProviderModel("azure:gpt-5").context_tokens == 400_000
    assert ProviderModel("bedrock:a-model").context_tokens is None

"""A model that repeats the same call with the same result is reminded once, and stopped if it goes on."""

from pathlib import Path
from typing import Any

from dragoman.builtin.loop import REMINDED_AT, STOPPED_AT, Repetitions
from dragoman.builtin.tools.tool import ToolError, ToolOutput
from dragoman.uistream.messages import ToolPart
from tests.builtin.fixtures import FakeTool, SessionFixture, open_fixture
from tests.builtin.test_loop import stop_reason


def outputs(fixture: SessionFixture) -> list[str]:
    parts = [part for part in fixture.session.history[-1].parts if isinstance(part, ToolPart)]
    return [str(part.error_text or part.output) for part in parts]


async def test_a_model_is_reminded_once_and_its_turn_ends_at_the_fifth_equal_call(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        fixture.add(FakeTool("poke"))
        end = await fixture.prompt(*['call poke {"value":"x"}'] * 8, "say done")
        assert end.error is None
        reminded = ["Do not repeat it" in text for text in outputs(fixture)]
        assert reminded == [False, False, True, False, False]
        assert "the model called poke 5 times" in fixture.texts()[-1]
        assert stop_reason(fixture) == "max_turn_requests"


async def test_calls_with_other_arguments_or_other_results_are_not_a_circle(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        numbers = iter(range(100))

        async def count(arguments: Any, context: Any) -> ToolOutput:
            return ToolOutput(str(next(numbers)))

        fixture.add(FakeTool("poke"), FakeTool("count", count))
        different = [f'call poke {{"value":"{number}"}}' for number in range(8)]
        await fixture.prompt(*different, *['call count {"value":"x"}'] * 8, "say done")
        assert fixture.texts()[-1] == "done"


async def test_a_call_that_fails_again_and_again_ends_the_turn_too(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:

        async def fail(arguments: Any, context: Any) -> None:
            raise ToolError("there is no such file")

        fixture.add(FakeTool("poke", fail))
        await fixture.prompt(*['call poke {"value":"x"}'] * 8, "say done")
        assert len(outputs(fixture)) == STOPPED_AT
        assert "done" not in fixture.texts()


def test_an_edit_that_did_something_new_begins_the_count_again() -> None:
    found = Repetitions()
    for number in range(6):
        assert found.note("bash", "execute", {"command": "make"}, "failed", has_failed=False) == ""
        assert found.note("bash", "execute", {"command": "make"}, "failed", has_failed=False) == ""
        assert found.note("edit", "edit", {"new": number}, "done", has_failed=False) == ""
    assert found.stop_reason == ""


def test_an_edit_that_repeats_itself_or_fails_does_not() -> None:
    found = Repetitions()
    for _ in range(STOPPED_AT):
        found.note("bash", "execute", {"command": "make"}, "failed", has_failed=False)
        found.note("edit", "edit", {"new": 1}, "not found", has_failed=True)
    assert found.stop_reason


def test_waiting_for_a_background_job_is_not_a_circle() -> None:
    found = Repetitions()
    for _ in range(20):
        assert found.note("bash_output", "read", {"id": "bg_1"}, "nothing new", has_failed=False) == ""
    assert found.stop_reason == ""


def test_two_calls_in_turns_are_a_circle_as_well() -> None:
    found = Repetitions()
    reminders = 0
    for _ in range(STOPPED_AT):
        for name in ("a", "b"):
            reminders += bool(found.note("read", "read", {"path": name}, "the same", has_failed=False))
    assert reminders == 2
    assert found.stop_reason
    assert REMINDED_AT < STOPPED_AT


def test_an_edit_that_is_made_and_taken_back_again_and_again_is_a_circle() -> None:
    found = Repetitions()
    for number in range(STOPPED_AT):
        assert found.stop_reason == "", number
        found.note("edit", "edit", {"old": "a", "new": "b"}, "done", has_failed=False)
        found.note("bash", "execute", {"command": "make"}, "failed", has_failed=False)
        found.note("edit", "edit", {"old": "b", "new": "a"}, "done", has_failed=False)
    assert found.stop_reason

"""An agent that writes without end does not fill the memory of `dragoman exec`, and its result says that it was cut."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.cli.exec_kit import Place, place
from tests.cli.step_kit import play, script

__all__ = ["place"]

MB = 1024  # of the unit of ru_maxrss
KEPT = 2 * 1024 * 1024


def most_memory(place: Place, pieces: int) -> int:
    """The most memory that one run used, in KiB."""
    agent = script(place, [["flood", pieces, "x" * 1000]])
    with open(place.project / "out", "wb") as out:
        process = subprocess.Popen(
            place.words("exec", "x", "--output", "json", "-q", odd=agent),
            cwd=place.project, env=place.environment, stdin=subprocess.DEVNULL, stdout=out,
        )  # fmt: skip
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss


def test_memory_does_not_grow_with_the_answer(place: Place) -> None:
    at_limit, beyond = most_memory(place, 2100), most_memory(place, 20_000)
    assert Path(place.project / "out").stat().st_size < 3 * KEPT
    assert beyond - at_limit < 8 * MB, "18 MB of text more are not kept"


def test_a_cut_result_says_so(place: Place) -> None:
    done = play(place, [["flood", 2500, "0123456789" * 100]], "--output", "json")
    result = done.result
    lost = 2_500_000 - KEPT
    assert result["lost_characters"] == lost
    assert result["text"].endswith(f"[cut by dragoman: {lost} more characters were not kept]")
    assert len(result["messages"][0]) == KEPT
    assert f"{lost} characters of the answer were not kept" in done.err
    whole = play(place, [["say", "short"]], "--output", "json")
    assert (whole.result["lost_characters"], whole.result["text"]) == (0, "short")
    assert "not kept" not in whole.err

"""A job in the background: its first output, what is new at each look, and that nothing of it survives."""

import asyncio
import os
import re
from pathlib import Path
from typing import Any

import pytest

from dragoman.builtin.tools.background import FIRST_SECONDS
from dragoman.builtin.tools.jobs import MOST_JOBS, Job, close_jobs, ended_jobs, job_lines, jobs_of
from tests.builtin.tools.fixtures import FakeContext
from tests.process.kit import is_alive

BOUND = 60.0


@pytest.fixture
def context(tmp_path: Path) -> FakeContext:
    (tmp_path / "root").mkdir()
    return FakeContext(tmp_path / "root")


@pytest.fixture
def _with_a_first_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the first second of a job be as long as it needs for a line."""
    wait = Job.wait

    async def longer(job: Job, seconds: float, *given: Any) -> None:
        if seconds == FIRST_SECONDS:
            await wait(job, BOUND, lambda text: "\n" in text)
        else:
            await wait(job, seconds, *given)

    monkeypatch.setattr(Job, "wait", longer)


def contents(path: str) -> str:
    return Path(path).read_text()


@pytest.mark.usefixtures("_with_a_first_line")
async def test_it_answers_with_an_id_a_file_and_the_first_output(context: FakeContext) -> None:
    output = await context.call("bash", command="echo begun; exec sleep 60", background=True)
    path = f"{context.overflow_dir}/bg_1.txt"
    assert output.text == (
        f"begun\n[job bg_1 runs in the background (timeout 1800 s); its output is also in {path}; "
        "look with bash_output, end it with bash_stop]"
    )
    assert contents(path) == "begun\n"
    assert os.stat(path).st_mode & 0o077 == 0
    assert await context.text("read", path=path) == "1\tbegun"
    stopped = await context.text("bash_stop", id="bg_1")
    assert stopped == "[no new output]\n[job bg_1 was stopped]"
    assert ended_jobs(context.memory) == ""


@pytest.mark.usefixtures("_with_a_first_line")
async def test_each_look_shows_what_is_new(context: FakeContext) -> None:
    for name in ("go", "end"):  # two, since a second reader of one could still meet its first writer
        os.mkfifo(context.folder / name)
    await context.call("bash", command="echo one; read x <go; echo $x; read x <end; exit 4", background=True)
    assert (await context.text("bash_output", id="bg_1")).startswith("[no new output]\n[job bg_1 is running since ")
    await asyncio.to_thread((context.folder / "go").write_text, "two\n")
    text = await asyncio.wait_for(context.text("bash_output", id="bg_1", wait=50, filter="t.o"), BOUND)
    assert text.startswith("two\n[job bg_1 is running")
    await asyncio.to_thread((context.folder / "end").write_text, "end\n")
    output = await asyncio.wait_for(context.call("bash_output", id=1, wait=50), BOUND)
    assert output.text == "[no new output]\n[job bg_1 ended with exit code 4]"
    assert output.exit_code == 4


async def test_a_filter_leaves_lines_out_and_states_how_many(context: FakeContext) -> None:
    await context.call("bash", command="true", background=True)
    job = jobs_of(context.memory).find("bg_1")
    job.take(b"ok 1\nFAILED 2\nok 3\n")
    text = await context.text("bash_output", id="bg_1", filter="FAIL")
    assert text.startswith("[2 new lines do not match the filter]\nFAILED 2\n[job bg_1 ended with exit code 0]")
    assert "is not a regular expression" in await context.refusal("bash_output", id="bg_1", filter="(")


async def test_of_much_output_the_end_is_kept_and_the_rest_counted(context: FakeContext) -> None:
    os.mkfifo(context.folder / "go")
    await context.call("bash", command="read x <go; seq 400000", background=True)
    await asyncio.to_thread((context.folder / "go").write_text, "\n")
    output = await asyncio.wait_for(context.call("bash_output", id="bg_1", wait=50), BOUND)
    dropped = re.search(r"\[(\d+) bytes before this were dropped; (\S+) has all of it\]", output.text)
    assert dropped is not None
    size = os.stat(dropped[2]).st_size
    assert int(dropped[1]) == size - (1 << 20)
    assert "\n400000\n[job bg_1 ended with exit code 0]" in output.text


@pytest.mark.usefixtures("_with_a_first_line")
async def test_an_end_is_announced_once(context: FakeContext) -> None:
    started = await context.text("bash", command="echo a; exec sleep 60", background=True)
    assert "bg_1" in started
    job = jobs_of(context.memory).find("bg_1")
    job.take(b"x\ny\n")
    await job.stop()
    assert job_lines(context.memory)[0].startswith("bg_1 was stopped: echo a; exec sleep 60; its output is in ")
    assert ended_jobs(context.memory) == "[job bg_1 was stopped; 2 new lines, see bash_output]"
    assert ended_jobs(context.memory) == ""


@pytest.mark.usefixtures("_with_a_first_line")
async def test_everything_a_job_started_ends_with_it(context: FakeContext) -> None:
    line = "trap '' TERM; sleep 60 & setsid sleep 60 & echo $$ $!; wait"
    output = await context.call("bash", command=line, background=True)
    pids = [int(pid) for pid in output.text.split("\n")[0].split()]
    assert all(is_alive(pid) for pid in pids)
    await asyncio.wait_for(close_jobs(context.memory), BOUND)
    assert not any(is_alive(pid) for pid in pids)


async def test_a_job_ends_after_its_timeout(context: FakeContext) -> None:
    await context.call("bash", command="exec sleep 60", background=True, timeout=1.2)
    text = await asyncio.wait_for(context.text("bash_output", id="bg_1", wait=50), BOUND)
    assert text == "[no new output]\n[job bg_1 timed out (timeout 1.2 s) and was ended]"


async def test_there_are_at_most_so_many(context: FakeContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.builtin.tools.background.FIRST_SECONDS", 0.01)
    for _ in range(MOST_JOBS):
        await context.call("bash", command="exec sleep 60", background=True)
    assert "16 jobs are running" in await context.refusal("bash", command="true", background=True)
    await context.call("bash_stop", id="bg_3")
    assert "bg_17" in await context.text("bash", command="exec sleep 60", background=True)
    assert "there is no job 'bg_3'" in await context.refusal("bash_output", id="bg_3")
    await close_jobs(context.memory)


async def test_an_id_is_not_used_again_by_another_process_of_the_session(context: FakeContext) -> None:
    await context.call("bash", command="echo old", background=True)
    later = FakeContext(context.folder)
    assert "bg_2" in await later.text("bash", command="true", background=True)
    assert contents(f"{context.overflow_dir}/bg_1.txt") == "old\n"


async def test_a_job_needs_the_same_permission_as_a_command(context: FakeContext) -> None:
    assert context.requests("bash", command="make", background=True) == context.requests("bash", command="make")

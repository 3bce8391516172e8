"""Tasks are read from Harbor's folders; what cannot be run without a container says so, line by line."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.errors import ConfigError
from dragoman.evaluation.task import load_task, load_tasks

HARBOR = """\
schema_version = "1.3"
artifacts = ["/app/out"]

[task]
name = "org/count"
description = "Count words."
authors = [{ name = "A", email = "a@example.org" }]
keywords = ["text"]

[metadata]
difficulty = "hard"
category = "data"
expert_time_estimate_min = 20

[agent]
timeout_sec = 900
user = "agent"

[verifier]
timeout_sec = 120.5
environment_mode = "separate"

[environment]
docker_image = "example/count:1"
cpus = 2
memory = "2G"
gpus = 0
network_mode = "allowlist"
allowed_hosts = ["packages.example"]
surprise = 1

[[environment.mcp_servers]]
name = "files"
transport = "stdio"
command = "files-server"
args = ["--root", "/app"]
"""


def write(folder: Path, toml: str, **files: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "task.toml").write_text(toml)
    (folder / "instruction.md").write_text("<!-- harbor-canary GUID 1-2-3 -->\n\nCount the words.\n")
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def host_task(folder: Path, extra: str = "", **files: str) -> Path:
    made = write(folder, f"[metadata.dragoman]\nhost = true\n{extra}", **files)
    (made / "environment" / "files").mkdir(parents=True)
    (made / "environment" / "files" / "a.txt").write_text("a\n")
    (made / "tests").mkdir()
    (made / "tests" / "test.sh").write_text("echo 1 > $LOGS_DIR/verifier/reward.txt\n")
    return made


def test_every_field_of_a_harbor_task_is_read_and_each_obstacle_is_a_line(tmp_path: Path) -> None:
    folder = write(tmp_path / "count", HARBOR, **{"environment/Dockerfile": "FROM scratch\n"})
    task = load_task(folder)
    assert (task.name, task.description, task.category, task.difficulty) == ("count", "Count words.", "data", "hard")
    assert (task.agent_seconds, task.judge_seconds, task.schema_version) == (900.0, 120.5, "1.3")
    assert task.instruction == "Count the words."
    assert task.mcp_servers[0].args == ("--root", "/app")
    named = [line.split(":")[0].split(" ")[0] for line in task.obstacles]
    assert named == [
        "environment/Dockerfile",
        "metadata.dragoman.host",
        "environment.docker_image",
        "environment.network_mode",
        "environment.allowed_hosts",
        "environment.memory",
        "environment.cpus",
        "agent.user",
        "verifier.environment_mode",
    ]
    assert task.notes == ("environment.surprise is not a field of task.toml",)
    assert task.reasons_to_skip() == task.obstacles


def test_the_mark_for_the_host_does_not_cover_what_only_a_container_has(tmp_path: Path) -> None:
    extra = '[environment]\ncpus = 4\ngpus = 1\ndocker_image = "x"\n'
    task = load_task(host_task(tmp_path / "a", extra))
    assert [line.split(" ")[0] for line in task.obstacles] == ["environment.docker_image", "environment.gpus"]


def test_several_steps_and_terminal_bench_1_are_reported_as_unsupported(tmp_path: Path) -> None:
    steps = load_task(host_task(tmp_path / "many" / "a", '[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n'))
    assert steps.obstacles == ("steps: a task of 2 steps is not run; only tasks with one instruction are",)
    (tmp_path / "many" / "old").mkdir()
    (tmp_path / "many" / "old" / "task.yaml").write_text("instruction: x\n")
    old = load_tasks([tmp_path / "many"], ["old"])[0]
    assert "Terminal-Bench 1" in old.obstacles[0]


def test_a_host_task_needs_files_and_a_judge(tmp_path: Path) -> None:
    task = load_task(write(tmp_path / "a", "[metadata.dragoman]\nhost = true\n"))
    assert task.obstacles == ("environment/files is missing", "tests/test.sh is missing")


def test_missing_programs_and_a_sandbox_are_reasons_to_skip(tmp_path: Path) -> None:
    extra = 'programs = ["sh", "no-such-program"]\nneeds_loopback = true\n'
    task = load_task(host_task(tmp_path / "a", extra))
    assert task.reasons_to_skip() == ("the program no-such-program is not on the PATH",)
    assert "127.0.0.1" in task.reasons_to_skip(is_sandboxed=True)[1]


@pytest.mark.parametrize(
    ("toml", "named"),
    [
        ("[metadata.dragoman]\nhost = 'yes'\n", "metadata.dragoman"),
        ("[metadata.dragoman]\nmay_chnage = []\n", "may_chnage"),
        ("[agent]\ntimeout_sec = 0\n", "agent.timeout_sec"),
        ("agent = 1\n", "agent must be a table"),
        ("[environment]\nmcp_servers = [{}]\n", "environment.mcp_servers"),
        ("not toml", "task.toml"),
    ],
)
def test_a_mistake_in_a_task_names_file_and_field(tmp_path: Path, toml: str, named: str) -> None:
    folder = write(tmp_path / "a", toml)
    with pytest.raises(ConfigError, match=named) as caught:
        load_task(folder)
    assert str(folder / "task.toml") in str(caught.value)


def test_unknown_names_and_empty_folders_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no task 'nope'; the tasks are .*csv-export"):
        load_tasks(names=["nope"])
    with pytest.raises(ConfigError, match="there is no task here"):
        load_tasks([tmp_path])
    with pytest.raises(ConfigError, match="no task can be read here"):
        load_tasks([tmp_path / "gone"])
    folder = write(tmp_path / "a", "")
    (folder / "instruction.md").write_text("\n")
    with pytest.raises(ConfigError, match="the instruction is empty"):
        load_task(folder)

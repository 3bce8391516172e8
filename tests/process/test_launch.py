"""Starting a program: what it gets, and what a caller learns when it cannot be started."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dragoman.errors import ConfigError, DragomanError
from dragoman.process import MARKER_VARIABLE
from dragoman.process.guard import guard
from dragoman.process.launch import Launched, launch
from tests.process.kit import open_fds, python, settled_fds


def output_of(launched: Launched) -> bytes:
    os.close(launched.stdin)
    output = b""
    while piece := os.read(launched.stdout, 65536):
        output += piece
    os.waitpid(launched.pid, 0)
    os.close(launched.stdout)
    os.close(launched.stderr)
    guard.forget(launched.marker)
    return output


def test_a_child_has_its_own_session_and_group_and_only_three_descriptors() -> None:
    inheritable, other_end = os.pipe()
    os.set_inheritable(inheritable, True)
    code = "import os; print(os.getpid() == os.getsid(0) == os.getpgid(0), sorted(os.listdir('/proc/self/fd')))"
    try:
        # The fourth is the listing itself.
        assert output_of(launch(python(code))) == b"True ['0', '1', '2', '3']\n"
    finally:
        os.close(inheritable)
        os.close(other_end)


def test_variables_are_added_changed_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAYS", "a")
    monkeypatch.setenv("CHANGES", "a")
    monkeypatch.setenv("GOES", "a")
    script = "echo $STAYS $CHANGES ${GOES-gone} $NEW"
    assert output_of(launch(["sh", "-c", script], env={"CHANGES": "b", "GOES": None, "NEW": "c"})) == b"a b gone c\n"


def test_without_inheritance_only_the_given_variables_and_the_marker_exist() -> None:
    launched = launch(["/usr/bin/env"], env={"ONLY": "this"}, inherit_env=False)
    assert sorted(output_of(launched).decode().split()) == [f"{MARKER_VARIABLE}={launched.marker}", "ONLY=this"]


def test_the_command_is_searched_on_the_path_the_child_gets(tmp_path: Path) -> None:
    (tmp_path / "my-agent").write_text("#!/bin/sh\necho found\n")
    (tmp_path / "my-agent").chmod(0o755)
    assert output_of(launch(["my-agent"], env={"PATH": f"{tmp_path}:/usr/bin:/bin"})) == b"found\n"


def test_markers_of_nested_agents_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MARKER_VARIABLE, "outer")
    launched = launch(["sh", "-c", f"echo ${MARKER_VARIABLE}"])
    assert output_of(launched).decode().strip() == f"outer:{launched.marker}"


def test_the_directory_is_used(tmp_path: Path) -> None:
    assert output_of(launch(["pwd"], cwd=tmp_path)).decode().strip() == str(tmp_path.resolve())


def test_stderr_can_be_merged_into_stdout_in_order() -> None:
    script = "echo 1; echo 2 >&2; echo 3; echo 4 >&2"
    assert output_of(launch(["sh", "-c", script], merge_stderr=True)) == b"1\n2\n3\n4\n"


@pytest.mark.parametrize(
    ("argv", "cwd", "words"),
    [
        ([], None, ["command is empty"]),
        (["no-such-agent-anywhere"], None, ["'no-such-agent-anywhere'", "not found", "install"]),
        (["/no/such/agent"], None, ["'/no/such/agent'", "no such file"]),
        (["{tmp}/plain.txt"], None, ["plain.txt", "not executable"]),
        (["{tmp}"], None, ["not executable"]),
        (["{tmp}/no-interpreter"], None, ["no-interpreter", "interpreter"]),
        (["{tmp}/no-first-line"], None, ["no-first-line", "#!/bin/sh"]),
        (["{tmp}/plain.txt/agent"], None, ["Not a directory", "path"]),
        (["true"], "/no/such/place", ["'/no/such/place'", "directory"]),
        (["true"], "{tmp}/plain.txt", ["plain.txt", "directory"]),
        (["tr\0ue"], None, ["NUL"]),
        (["true", "x" * 5_000_000], None, ["arguments", "shorten"]),
    ],
)
def test_an_unusable_command_is_a_config_error_that_says_what_to_do(
    argv: list[str], cwd: str | None, words: list[str], tmp_path: Path
) -> None:
    (tmp_path / "plain.txt").write_text("text")
    (tmp_path / "no-interpreter").write_text("#!/no/such/interpreter\n")
    (tmp_path / "no-first-line").write_text("echo hello\n")
    for name in ("no-interpreter", "no-first-line"):
        (tmp_path / name).chmod(0o755)
    before = settled_fds()
    with pytest.raises(ConfigError) as caught:
        launch([part.format(tmp=tmp_path) for part in argv], cwd=cwd and cwd.format(tmp=tmp_path))
    assert [word for word in words if word not in str(caught.value)] == [], str(caught.value)
    assert open_fds() == before


@pytest.mark.parametrize("spare_fds", range(8))
def test_running_out_of_descriptors_is_a_clear_error_and_leaves_none_behind(spare_fds: int) -> None:
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    holes = [os.dup(0) for _ in range(highest + 1 - open_fds())]
    before = settled_fds()
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + spare_fds, hard))
    try:
        with pytest.raises(DragomanError, match="Too many open files") as caught:
            launch(["true"])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert not isinstance(caught.value, ConfigError)
    assert open_fds() == before
    for fd in holes:
        os.close(fd)


class Elsewhere:
    """Starts programs on a thread of its own, with one more descriptor."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.threads: list[str] = []

    def start(self, popen: Callable[[Collection[int]], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        with ThreadPoolExecutor(1, thread_name_prefix="elsewhere") as pool:
            return pool.submit(self._start, popen).result()

    def _start(self, popen: Callable[[Collection[int]], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        self.threads.append(threading.current_thread().name)
        return popen((self.fd,))

    def terminate(self, group: int) -> None:
        raise AssertionError("nothing ends here")


def test_a_starter_decides_on_which_thread_and_with_which_descriptors() -> None:
    read_end, write_end = os.pipe()
    starter = Elsewhere(write_end)
    try:
        code = f"import os; os.write({write_end}, b'given'); print('out')"
        assert output_of(launch(python(code), starter=starter)) == b"out\n"
        assert os.read(read_end, 100) == b"given"
        assert starter.threads == ["elsewhere_0"]
        before = settled_fds()
        with pytest.raises(ConfigError, match="not found"):
            launch(["no-such-program"], starter=starter)
        assert open_fds() == before
    finally:
        os.close(read_end)
        os.close(write_end)


def test_windows_is_refused_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(DragomanError, match="WSL"):
        launch(["true"])


def test_the_pid_is_never_handed_to_the_list_every_popen_polls() -> None:
    launched = launch(["sh", "-c", "exit 7"])
    for _ in range(3):
        subprocess.run(["true"], check=True)
    assert os.waitstatus_to_exitcode(os.waitpid(launched.pid, 0)[1]) == 7
    launched.end()

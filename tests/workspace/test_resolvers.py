"""Two ways to open what lies beneath a root: the kernel's and our own walk, with the same answers."""

from __future__ import annotations

import errno
import os
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.errors import ConfigError
from dragoman.workspace import Workspace, WorkspaceError
from dragoman.workspace.resolve import KernelResolver, Way, find_resolver


def _lacking(*_: object) -> int:
    raise OSError(errno.ENOSYS, "Function not implemented")


def test_the_kernels_way_is_taken_where_there_is_one() -> None:
    try:
        expected = find_resolver("openat2").name
    except ConfigError as error:
        pytest.skip(str(error))
    assert find_resolver("auto").name == expected == "openat2"


def test_the_walk_can_be_chosen() -> None:
    assert find_resolver("walk").name == "walk"


def test_the_walk_takes_over_where_the_kernel_lacks_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KernelResolver, "_open", _lacking)
    assert find_resolver("auto").name == "walk"
    with pytest.raises(ConfigError, match=r"Linux 5\.6"):
        find_resolver("openat2")


def test_folders_that_keep_moving_end_in_a_refusal_not_in_a_loop(project: Path) -> None:
    resolver = KernelResolver()
    calls = 0

    def again(*_: object) -> int:
        nonlocal calls
        calls += 1
        return -1

    resolver._syscall = again
    resolver._get_errno = lambda: errno.EAGAIN
    with Workspace([project], resolver="walk") as workspace:
        workspace._resolver = resolver
        with pytest.raises(WorkspaceError) as caught:
            workspace.read_text(project / "src" / "main.py")
    assert caught.value.kind == "busy"
    assert 1 < calls < 100


def test_the_walk_never_opens_a_path_of_several_components(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slash in what is opened would hand links on the way to the kernel, which follows them."""
    opened: list[tuple[str, int]] = []
    real_open = os.open

    def watch(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        opened.append((path, flags))
        return real_open(path, flags, mode, dir_fd=dir_fd)

    (project / "link").symlink_to("src/../src")
    with Workspace([project], resolver="walk") as workspace:
        monkeypatch.setattr(os, "open", watch)
        workspace.read_text(project / "link" / "main.py")
        workspace.write_text(project / "a" / "b" / "c.txt", "x\n")
    assert {name for name, _ in opened} >= {"link", "src", "main.py", "a", "b"}
    assert not [name for name, _ in opened if "/" in name]
    assert all(flags & os.O_NOFOLLOW for _, flags in opened)


NAMES = ["a", "b", "f", "g"]
STEP = st.sampled_from([*NAMES, *NAMES, "..", "."])
TARGET = st.lists(STEP, min_size=1, max_size=4).map("/".join)
LINKS = st.dictionaries(st.tuples(st.sampled_from(["", "a", "a/b"]), st.sampled_from("klm")), TARGET, max_size=4)
PATH = st.lists(st.sampled_from([*NAMES, "k", "l", "m"]), min_size=1, max_size=5).map("/".join)


@settings(max_examples=200, deadline=None)
@given(links=LINKS, paths=st.lists(PATH, min_size=1, max_size=8))
@example(links={("", "k"): "f/.", ("", "l"): "a/.", ("a", "m"): "../f/"}, paths=["k", "l", "l/b/g", "a/m", "k/f"])
def test_both_ways_give_the_same_file_or_the_same_refusal(links: dict[tuple[str, str], str], paths: list[str]) -> None:
    try:
        find_resolver("openat2")
    except ConfigError as error:
        pytest.skip(str(error))
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve() / "a" / "root"
        (root / "a" / "b").mkdir(parents=True)
        for folder in (root.parent.parent, root.parent, root, root / "a", root / "a" / "b"):
            for file in ("f", "g"):
                (folder / file).write_text(str(folder / file))
        for (folder_name, link), target in links.items():
            with suppress(FileExistsError):
                (root / folder_name / link).symlink_to(target)
        answers = [_answers(root, paths, way) for way in ("openat2", "walk")]
        assert answers[0] == answers[1]
        assert all(answer.startswith(("!", str(root) + "/")) for answer in answers[0])


def _answers(root: Path, paths: list[str], way: str) -> list[str]:
    ways: dict[str, Way] = {"openat2": "openat2", "walk": "walk"}
    answers = []
    with Workspace([root], resolver=ways[way]) as workspace:
        for path in paths:
            try:
                answers.append(workspace.read_text(root / path))
            except WorkspaceError as error:
                answers.append(f"!read {error.kind}")
            try:
                workspace.preview(root / path, "x")
                answers.append("!may write")
            except WorkspaceError as error:
                answers.append(f"!write {error.kind}")
    return answers

"""Where the socket of the local host is: each row of the rules about places."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.host.local.daemon import file_system_of, refuse_network
from dragoman.host.local.place import MAX_PATH_BYTES, HostPlace, PlaceRefused, find_places, mark_of, why_not_private


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A short one: paths of sockets are limited."""
    with tempfile.TemporaryDirectory(prefix="dgp-", dir="/tmp") as folder:
        yield Path(folder)


def private(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True)
    folder.chmod(0o700)
    return folder


def found(environment: dict[str, str], tmp_path: Path, **more: int) -> list[str]:
    user = more.get("user", os.geteuid())
    listed = find_places(environment, user=user, run_user=str(tmp_path / "run-user"), temporary=str(tmp_path / "t"))
    return [each.folder for each in listed.places]


def test_the_runtime_folder_of_the_user_comes_first_and_the_others_are_looked_at_too(tmp_path: Path) -> None:
    own = private(tmp_path / "own")
    system = private(tmp_path / "run-user" / str(os.geteuid()))
    assert found({"XDG_RUNTIME_DIR": str(own)}, tmp_path) == [
        f"{own}/dragoman",
        f"{system}/dragoman",
        f"{tmp_path}/t/dragoman-{os.geteuid()}",
    ]
    assert found({}, tmp_path)[0] == f"{system}/dragoman"


def test_without_a_runtime_folder_the_place_follows_from_the_user_alone(tmp_path: Path) -> None:
    expected = [f"{tmp_path}/t/dragoman-{os.geteuid()}"]
    assert found({}, tmp_path) == found({"HOME": "/elsewhere", "SUDO_USER": "other"}, tmp_path) == expected


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_runtime_folder_that_is_open_to_others_is_not_used_and_a_note_names_it(tmp_path: Path, mode: int) -> None:
    own = private(tmp_path / "own")
    own.chmod(mode)
    listed = find_places({"XDG_RUNTIME_DIR": str(own)}, run_user=str(tmp_path / "none"), temporary=str(tmp_path))
    assert [each.folder for each in listed.places] == [f"{tmp_path}/dragoman-{os.geteuid()}"]
    assert "is open to others" in listed.notes[0]
    assert "XDG_RUNTIME_DIR" in listed.notes[0]


def test_a_runtime_folder_of_another_user_is_not_used(tmp_path: Path) -> None:
    own = private(tmp_path / "own")
    other = os.geteuid() + 1
    listed = find_places({"XDG_RUNTIME_DIR": str(own)}, user=other, run_user=str(tmp_path), temporary=str(tmp_path))
    assert [each.folder for each in listed.places] == [f"{tmp_path}/dragoman-{other}"]
    assert "belongs to the user" in listed.notes[0]


@pytest.mark.parametrize("value", ["relative/path", "/does/not/exist"])
def test_a_runtime_folder_that_is_none_is_not_used(tmp_path: Path, value: str) -> None:
    listed = find_places({"XDG_RUNTIME_DIR": value}, run_user=str(tmp_path), temporary=str(tmp_path))
    assert len(listed.places) == 1
    assert value in listed.notes[0]


def test_other_folders_for_settings_or_data_are_another_host(tmp_path: Path) -> None:
    one = find_places({"DRAGOMAN_HOME": str(tmp_path / "one")}).first
    two = find_places({"DRAGOMAN_HOME": str(tmp_path / "two")}).first
    assert one.folder == two.folder
    assert one.socket != two.socket
    assert one.lock != two.lock
    assert mark_of("/a", "/b", "i") != mark_of("/b", "/a", "i")
    assert mark_of("/a", "/b", "i") != mark_of("/a", "/b", "j")
    assert len(one.mark) == 8


def test_a_path_that_is_too_long_for_a_socket_is_passed_over(tmp_path: Path) -> None:
    long = private(tmp_path / ("x" * MAX_PATH_BYTES))
    listed = find_places({"XDG_RUNTIME_DIR": str(long)}, run_user=str(tmp_path / "none"), temporary="/t")
    assert [each.folder for each in listed.places] == [f"/t/dragoman-{os.geteuid()}"]
    assert "too long" in listed.notes[0]
    for each in listed.places:
        assert len(f"{each.socket}.4194304") <= MAX_PATH_BYTES


def test_the_folder_is_made_for_its_owner_only(tmp_path: Path) -> None:
    place = HostPlace(str(tmp_path / "made"), "00000000")
    before = os.umask(0)
    try:
        place.make()
    finally:
        os.umask(before)
    assert why_not_private(place.folder) == ""
    place.make()  # a second time is no error


def test_a_folder_that_another_program_prepared_is_refused(tmp_path: Path) -> None:
    open_folder = tmp_path / "open"
    open_folder.mkdir()
    open_folder.chmod(0o777)
    link = tmp_path / "link"
    link.symlink_to(private(tmp_path / "real"))
    file = tmp_path / "file"
    file.touch()
    for path in (open_folder, link, file):
        with pytest.raises(PlaceRefused, match="another user may have made it"):
            HostPlace(str(path), "00000000").make()
    with pytest.raises(PlaceRefused, match="cannot be made"):
        HostPlace(str(tmp_path / "missing" / "inner"), "00000000").make()


MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
tmpfs /home/me/local tmpfs rw 0 0
me@host: /mnt/my\\040files fuse.sshfs rw 0 0
"""


@pytest.mark.parametrize(
    ("folder", "kind", "is_refused"),
    [
        ("/var/lib", "ext4", False),
        ("/home/me/.local/share/dragoman", "nfs4", True),
        ("/home/me/local/data", "tmpfs", False),
        ("/home2", "ext4", False),
        ("/mnt/my files/x", "fuse.sshfs", True),
    ],
)
def test_the_log_is_refused_on_a_network_file_system(folder: str, kind: str, is_refused: bool) -> None:
    assert file_system_of(folder, MOUNTS) == kind
    assert bool(refuse_network(folder, kind)) == is_refused
    if is_refused:
        assert "DRAGOMAN_HOME" in refuse_network(folder, kind)

"""Threat 4, what is no plain text file: it neither blocks nor floods, and the error says what it is."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from dragoman.workspace import FileLimits, Workspace
from tests.workspace.kit import refused

BOUND_SECONDS = 60


@pytest.mark.timeout(BOUND_SECONDS)
def test_threat_4_a_fifo_does_not_block(workspace: Workspace, project: Path) -> None:
    os.mkfifo(project / "pipe")
    (project / "alias").symlink_to("pipe")
    for name in ("pipe", "alias"):
        with refused("not_a_file"):
            workspace.read_text(project / name)
    with refused("not_a_file"):
        workspace.write_text(project / "pipe", "x")


@pytest.mark.timeout(BOUND_SECONDS)
def test_threat_4_a_socket_a_folder_and_a_device_are_refused(workspace: Workspace, project: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(project / "socket"))
        for path in (project / "socket", project / "src", project):
            with refused("not_a_file"):
                workspace.read_text(path)
            with refused("not_a_file"):
                workspace.write_text(path, "x")
    with Workspace(["/dev"]) as devices:
        for name in ("null", "zero"):
            with refused("not_a_file"):
                devices.read_text(f"/dev/{name}")
            with refused("not_a_file"):
                devices.write_text(f"/dev/{name}", "x")


def test_threat_4_a_file_over_the_limit_is_neither_read_nor_written(project: Path, resolver: str) -> None:
    limits = FileLimits(file_bytes=1000)
    with Workspace([project], limits=limits, resolver=resolver) as workspace:  # type: ignore[arg-type]  # a Way
        (project / "fits.txt").write_text("x" * 1000)
        (project / "large.txt").write_text("x" * 1001)
        assert len(workspace.read_text(project / "fits.txt")) == 1000
        for window in ({}, {"line": 1, "limit": 1}):
            with refused("too_large"):
                workspace.read_text(project / "large.txt", **window)
        with refused("too_large"):
            workspace.write_text(project / "large.txt", "small\n")
        with refused("too_large"):
            workspace.write_text(project / "new.txt", "ö" * 501)
        assert not (project / "new.txt").exists()
        workspace.write_text(project / "new.txt", "ö" * 500)


def test_a_file_without_a_size_is_read_to_its_end_or_to_the_limit() -> None:
    """Files of /proc are made while they are read and say that they are empty."""
    with Workspace(["/proc"]) as workspace:
        assert workspace.read_text("/proc/self/status").startswith("Name:")
    with Workspace(["/proc"], limits=FileLimits(file_bytes=100)) as workspace, refused("too_large"):
        workspace.read_text("/proc/self/status")


@pytest.mark.parametrize("content", [b"PNG\0\1\2", b"gr\xfc\xdfe\n", b"a\xed\xa0\x80", "text\n".encode("utf-16")])
def test_what_is_not_text_is_neither_read_nor_overwritten(workspace: Workspace, project: Path, content: bytes) -> None:
    (project / "image.png").write_bytes(content)
    with refused("binary"):
        workspace.read_text(project / "image.png")
    with refused("binary"):
        workspace.write_text(project / "image.png", "text\n")
    assert (project / "image.png").read_bytes() == content


@pytest.mark.parametrize("text", ["a\0b", "half \ud83d"])
def test_text_that_could_not_be_read_back_is_not_written(workspace: Workspace, project: Path, text: str) -> None:
    with refused("binary"):
        workspace.write_text(project / "new.txt", text)
    assert not (project / "new.txt").exists()


def test_threat_4_a_hard_link_is_reported_and_its_other_name_keeps_the_old_text(
    workspace: Workspace, project: Path
) -> None:
    outside = project.parent / "elsewhere" / "secret.txt"
    secret = outside.read_text()
    os.link(outside, project / "linked.txt")
    assert workspace.preview(project / "linked.txt", "mine\n").links == 2
    assert workspace.preview(project / "src" / "main.py", "mine\n").links == 1
    assert workspace.write_text(project / "linked.txt", "mine\n").links == 2
    assert outside.read_text() == secret
    assert (project / "linked.txt").read_text() == "mine\n"


def test_a_missing_file_and_a_missing_folder_are_missing(workspace: Workspace, project: Path) -> None:
    for path in ("no.txt", "no/no.txt", "src/main.py/no.txt"):
        with refused("missing"):
            workspace.read_text(project / path)
    with refused("not_a_file"):
        workspace.write_text(project / "src" / "main.py" / "no.txt", "x")

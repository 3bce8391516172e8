"""Unsaved text overlays the disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.workspace import Workspace
from tests.workspace.kit import refused


@pytest.mark.rule(276)
def test_readers_get_the_unsaved_text_until_the_buffer_is_closed(workspace: Workspace, project: Path) -> None:
    path = project / "src" / "main.py"
    workspace.open_buffer(path, "print('unsaved')\nprint('more')\n")
    assert workspace.read_text(path) == "print('unsaved')\nprint('more')\n"
    assert workspace.read_text(path, line=2, limit=1) == "print('more')\n"
    assert workspace.read_text(f"{project}/src/../src/main.py").startswith("print('unsaved')")
    workspace.close_buffer(path)
    assert workspace.read_text(path) == "print(1)\n"
    workspace.close_buffer(path)


@pytest.mark.rule(276)
def test_a_link_to_an_open_file_gives_its_unsaved_text(workspace: Workspace, project: Path) -> None:
    (project / "alias.py").symlink_to("src/main.py")
    workspace.open_buffer(project / "src" / "main.py", "unsaved\n")
    assert workspace.read_text(project / "alias.py") == "unsaved\n"


def test_a_file_that_was_never_saved_can_be_read(workspace: Workspace, project: Path) -> None:
    workspace.open_buffer(project / "new.py", "draft\n")
    assert workspace.read_text(project / "new.py") == "draft\n"
    assert not (project / "new.py").exists()


def test_a_buffer_outside_of_the_roots_is_refused(workspace: Workspace, project: Path) -> None:
    with refused("outside"):
        workspace.open_buffer(project.parent / "elsewhere" / "secret.txt", "x")


def test_a_write_goes_to_the_disk_and_into_the_buffer(workspace: Workspace, project: Path) -> None:
    path = project / "src" / "main.py"
    workspace.open_buffer(path, "print('unsaved')\n")
    change = workspace.write_text(path, "print('agent')\n")
    assert path.read_text() == workspace.read_text(path) == "print('agent')\n"
    assert change.before == b"print('unsaved')\n"
    workspace.close_buffer(path)
    assert workspace.read_text(path) == "print('agent')\n"


def test_taking_back_a_write_brings_the_unsaved_text_back(workspace: Workspace, project: Path) -> None:
    path = project / "src" / "main.py"
    workspace.open_buffer(path, "print('unsaved')\n")
    workspace.write_text(path, "print('agent')\n", label="1")
    workspace.journal.rewind("1")
    assert workspace.read_text(path) == path.read_text() == "print('unsaved')\n"


def test_a_draft_that_was_written_by_an_agent_can_be_taken_back(workspace: Workspace, project: Path) -> None:
    workspace.open_buffer(project / "new.py", "draft\n")
    workspace.write_text(project / "new.py", "written\n", label="1")
    workspace.journal.rewind("1")
    assert workspace.read_text(project / "new.py") == "draft\n"


def test_text_typed_since_is_not_lost_by_taking_back(workspace: Workspace, project: Path) -> None:
    path = project / "src" / "main.py"
    workspace.open_buffer(path, "print(1)\n")
    workspace.write_text(path, "print(2)\n", label="1")
    workspace.open_buffer(path, "print(2)  # typed since\n")
    with refused("changed"):
        workspace.journal.rewind("1")
    assert workspace.read_text(path) == "print(2)  # typed since\n"
    assert path.read_text() == "print(2)\n"

"""Projects for the tests of worktrees."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def git(folder: Path, *words: str) -> str:
    """Runs git as a user of its own, and returns what it prints."""
    names = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    env = {**os.environ, **names, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    return subprocess.run(["git", *words], cwd=folder, env=env, check=True, capture_output=True, text=True).stdout


def write(folder: Path, **files: str | bytes) -> None:
    """Writes files; a double underscore in a name is a folder, a single one at its end is left out."""
    for name, content in files.items():
        path = folder / name.replace("__", "/").replace("_txt", ".txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def make_project(folder: Path, *, is_git: bool) -> Path:
    """A project with a few files; with git they are committed."""
    project = folder / "project"
    project.mkdir()
    write(project, a_txt="1\n2\n3\n4\n5\n6\n7\n8\n9\n", sub__b_txt="b\n", sub__c_txt="c\n", bin=b"\0\1\2")
    (project / "link").symlink_to("a.txt")
    (project / "run").write_text("#!/bin/sh\n")
    (project / "run").chmod(0o755)
    if is_git:
        git(project, "init", "-q")
        write(project, **{".gitignore": "ignored/\n"})
        git(project, "add", "-A")
        git(project, "commit", "-qm", "one")
    return project


def content(project: Path) -> dict[str, tuple[bytes, int]]:
    """Every file of a project with its mode, those of git left out; of a link where it leads."""
    found = {}
    for path in sorted(project.rglob("*")):
        name = str(path.relative_to(project))
        if name == ".git" or name.startswith(".git/") or (path.is_dir() and not path.is_symlink()):
            continue
        data = os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
        found[name] = data, path.lstat().st_mode
    return found

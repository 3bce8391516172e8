"""Which changes of git's configuration are ordinary work; everything else counts as a change."""

from __future__ import annotations

import pytest

from dragoman.process.sandbox.git_config import is_harmless_change

BEFORE = (
    '[core]\n\tbare = false\n[remote "origin"]\n\turl = https://host/x\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n'
)


@pytest.mark.parametrize(
    "added",
    [
        "",
        '[branch "main"]\n\tremote = origin\n\tmerge = refs/heads/main\n',
        '[branch "a/b-1"]\n\tremote = .\n\tmerge = refs/heads/main\n\trebase = true\n',
        '[branch "x"]\n',
    ],
)
def test_a_branch_that_follows_a_known_server_is_harmless(added: str) -> None:
    assert is_harmless_change(BEFORE.encode(), (BEFORE + added).encode())
    assert is_harmless_change((BEFORE + added).encode(), BEFORE.encode())


@pytest.mark.parametrize(
    "after",
    [
        BEFORE + "[core]\n\thooksPath = evil\n",
        BEFORE + "[core] hooksPath = evil\n",
        BEFORE + '[branch "x"] remote = origin\n',
        BEFORE.replace("host", "evil"),
        BEFORE + '[remote "evil"]\n\turl = https://evil/x\n',
        BEFORE + '[remote "evil"]\n\turl = /x\n[branch "main"]\n\tremote = evil\n',
        BEFORE + '[branch "main"]\n\tremote = https://evil/x\n',
        BEFORE + '[branch "main"]\n\tremote = evil\n',
        BEFORE + '[branch "main"]\n\tpushRemote = origin\n\tmergeoptions = -s evil\n',
        BEFORE + '[branch "main"]\n\tmerge = refs/heads/main \\\n[core]\n',
        BEFORE + '[branch "main"]\n\tmerge = refs/heads/main\n[alias]\n\tst = !evil\n',
        BEFORE + "[include]\n\tpath = evil\n",
        BEFORE.replace("bare = false", "fsmonitor = evil"),
        "",
    ],
)
def test_everything_else_counts(after: str) -> None:
    assert not is_harmless_change(BEFORE.encode(), after.encode())


def test_what_is_not_text_counts() -> None:
    assert not is_harmless_change(BEFORE.encode(), BEFORE.encode() + b"\xff")

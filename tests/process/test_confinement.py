"""The order of the steps around commands, also around several at a time and around one that is cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dragoman.process.sandbox import ProtectedChange, Tripwire
from dragoman.process.sandbox.confinement import Confinement
from dragoman.process.sandbox.policy import unconfined_policy

SECONDS = 60


class Watched:
    """A project with hooks, and what is reported of them."""

    def __init__(self, folder: Path) -> None:
        self.hooks = folder / "project/.git/hooks"
        self.hooks.mkdir(parents=True)
        self.aside = folder / "aside"
        self.reported: list[str] = []

    def confinement(self, **options: Any) -> Confinement:
        tripwire = Tripwire(unconfined_policy([str(self.hooks.parents[1])]), self.aside, is_confined=False)
        return Confinement(tripwire=tripwire, on_changes=self.report, **options)

    def report(self, changes: Sequence[ProtectedChange]) -> None:
        self.reported += names(changes)

    def write(self, name: str) -> Path:
        (self.hooks / name).write_text("new")
        return self.hooks / name


def names(changes: Sequence[ProtectedChange]) -> list[str]:
    return [Path(change.path).name for change in changes]


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


@pytest.mark.parametrize("rearms", [True, False])
async def test_a_change_between_two_commands_is_the_users_or_the_agents(watched: Watched, rearms: bool) -> None:
    confinement = watched.confinement(rearms=rearms)
    await confinement.begin()
    watched.write("by-command")
    assert names(await confinement.end(was_inside=False)) == ["by-command"]
    watched.write("between")
    await confinement.begin()
    assert watched.reported == ([] if rearms else ["between"])
    assert await confinement.end(was_inside=False) == ()


async def test_a_change_is_reported_once_with_the_first_of_several_commands_that_ends(watched: Watched) -> None:
    confinement = watched.confinement(rearms=True)
    await asyncio.gather(confinement.begin(), confinement.begin())
    watched.write("a")
    assert names(await confinement.end(was_inside=False)) == ["a"]
    watched.write("b")
    await confinement.begin()  # the second still runs: nothing is noted again
    assert names(await confinement.end(was_inside=False)) == ["b"]
    assert await confinement.end(was_inside=False) == ()


async def test_what_was_permitted_or_accepted_is_not_reported(watched: Watched) -> None:
    confinement = watched.confinement(is_expected=lambda path: path.endswith("expected"))
    await confinement.begin()
    for name in ("expected", "named", "other"):
        watched.write(name)
    await confinement.accept(str(watched.write("accepted")))
    changes = await confinement.end(was_inside=False, permitted=[str(watched.hooks / "named")])
    assert names(changes) == ["other"]


async def test_files_are_put_back_if_that_is_wanted(watched: Watched) -> None:
    confinement = watched.confinement(restores=True)
    await confinement.begin()
    watched.write("hook")
    (change,) = await confinement.end(was_inside=False)
    assert change.is_restored
    assert not (watched.hooks / "hook").exists()


async def test_the_files_are_compared_to_the_end_although_the_command_was_cancelled(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    confinement = watched.confinement(rearms=True, restores=True)
    await confinement.begin()
    hook = watched.write("hook")
    check, looks, may_look = Tripwire.check, asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slowly(tripwire: Tripwire, **options: Any) -> list[ProtectedChange]:
        loop.call_soon_threadsafe(looks.set)
        assert may_look.wait(SECONDS), "the event loop did nothing while the files were looked at"
        return check(tripwire, **options)

    monkeypatch.setattr(Tripwire, "check", slowly)
    ending = asyncio.ensure_future(confinement.end(was_inside=False))
    await asyncio.wait_for(looks.wait(), SECONDS)
    ending.cancel()
    may_look.set()
    with pytest.raises(asyncio.CancelledError):
        await ending
    await confinement.accept(str(hook))  # waits until the look is over
    assert not hook.exists()
    await confinement.begin()
    assert await confinement.end(was_inside=False) == ()


async def test_a_confinement_without_a_tripwire_compares_nothing(tmp_path: Path) -> None:
    confinement = Confinement()
    await confinement.begin()
    assert await confinement.end(was_inside=False) == ()
    assert confinement.is_armed

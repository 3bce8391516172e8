"""The pytest fixture `recordings`, which replays recordings from a folder next to the test.

Load it with `pytest_plugins = ["dragoman.testing.pytest_plugin"]` in the topmost conftest.py. Imports pytest only when
pytest itself loads it, so that the package can be imported without pytest.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.process.own_program import own_command
from dragoman.testing.recorded import drive_as_recorded, replayed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractAsyncContextManager
    from typing import Unpack

    import pytest

    from dragoman.agent import Agent
    from dragoman.client import ClientOptions, RemoteAgent


class Recordings:
    """The value of the fixture. A recording is named by its file in `recordings/` next to the test file."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        self.folder = folder
        self._scratch = scratch
        self._reports: dict[Path, str] = {}

    def path(self, recording: str) -> Path:
        """Return the file of a recording; `.jsonl` may be left out."""
        return self.folder / (recording if recording.endswith(".jsonl") else f"{recording}.jsonl")

    def replayed(
        self, recording: str, *, ignore: Sequence[str] = (), **options: Unpack[ClientOptions]
    ) -> AbstractAsyncContextManager[RemoteAgent]:
        """Play the recorded agent, for client code: see `dragoman.testing.replayed`."""
        return replayed(self.path(recording), ignore=ignore, **options)

    async def drive(self, recording: str, agent: Agent | Sequence[str], *, ignore: Sequence[str] = ()) -> None:
        """Play the recorded client against an agent: see `dragoman.testing.drive_as_recorded`."""
        await drive_as_recorded(self.path(recording), agent, ignore=ignore)

    def command(self, recording: str, *, ignore: Sequence[str] = ()) -> list[str]:
        """Return the command of a program that plays the recorded agent, for a client in any language.

        If the client does not send what was recorded, the test fails at its end.
        """
        report = self._scratch / f"dragoman-report-{len(self._reports)}.json"
        self._reports[report] = recording
        command = [*own_command("replay", str(self.path(recording)), "--report", str(report))]
        return [*command, "--ignore", ",".join(ignore)] if ignore else command

    def verdict(self) -> str:
        """Return the differences that the programs of `command` reported; empty if there are none."""
        found = []
        for report, name in self._reports.items():
            if not report.exists():
                found.append(f"{name}: the fake agent was not started, or killed before it could report")
                continue
            for difference in json.loads(report.read_text())["differences"]:
                found.append(f"{name}: {difference['text']}")
        return "\n".join(found)


def pytest_configure(config: pytest.Config) -> None:
    import pytest

    class Fixtures:
        @pytest.fixture
        def recordings(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Recordings]:
            """Provide the recordings next to this test, to be played as a fake agent or as a fake client."""
            found = Recordings(request.path.parent / "recordings", tmp_path)
            yield found
            if verdict := found.verdict():
                pytest.fail(f"not as recorded:\n{verdict}", pytrace=False)

    config.pluginmanager.register(Fixtures(), "dragoman-recordings")

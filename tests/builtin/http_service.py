"""Fixtures: the built-in agent with a client, as an editor would use it."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from dragoman.agent import Agent
from dragoman.builtin.agent import build_agent
from dragoman.builtin.limits import TurnLimits
from dragoman.builtin.models.model import Model, ModelRequest, StepEnd
from dragoman.builtin.models.scripted import ScriptedModel
from dragoman.builtin.settings import AgentSettings
from dragoman.client import RemoteAgent, Session, connect
from dragoman.schema import v1
from dragoman.transports.memory import memory_pair
from dragoman.uistream.chunks import Chunk
from dragoman.uistream.messages import TextPart
from tests.interop.wire_check import WireCheck


class Answers:
    """Answers permission requests by the kind or the id of an option, and records them."""

    def __init__(self, *kinds: str | None) -> None:
        self._kinds = list(kinds)
        self.asked: list[v1.RequestPermissionRequest] = []
        self.arrived = asyncio.Event()

    async def __call__(self, request: v1.RequestPermissionRequest, session: Session) -> str | None:
        self.asked.append(request)
        self.arrived.set()
        kind = self._kinds.pop(0) if len(self._kinds) > 1 else self._kinds[0]
        return next((each.option_id for each in request.options if kind in (each.kind, each.option_id)), None)


class Service:
    """One agent object, any number of clients."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.project = folder / "project"
        self.project.mkdir(parents=True, exist_ok=True)
        given = {
            "model": "scripted",
            "store": self.home / "sessions.db",
            "rules_file": self.home / "rules.json",
            "limits": TurnLimits(retry_seconds=(0.0,), cleanup_seconds=2.0),
            **settings,
        }
        self.settings = AgentSettings(**given)
        self.agent: Agent = build_agent(self.settings)

    @asynccontextmanager
    async def client(self, *kinds: str | None, is_leaving: bool = False, **options: Any) -> AsyncIterator[RemoteAgent]:
        """A client that answers permissions so; every frame of the agent is checked when it leaves.

        `is_leaving`: it goes in the middle of a turn, so an answer may be missing.
        """
        if kinds:
            options.setdefault("permission", Answers(*kinds))
        check = WireCheck()
        ours, theirs = memory_pair()
        serving = asyncio.create_task(self.agent.serve(theirs, observers=[check]))
        try:
            async with connect(ours, **options) as remote:
                yield remote
        finally:
            await serving
        if self.settings.unstable:
            return  # the stable schema does not describe it
        assert [problem for problem in check.problems() if not (is_leaving and "answered 0 times" in problem)] == []

    @asynccontextmanager
    async def session(self, *kinds: str | None, **options: Any) -> AsyncIterator[Session]:
        async with self.client(*kinds, **options) as remote:
            yield await remote.new_session(self.project)


class RecordingModel(Model):
    """A model that records its requests, and then plays the prompt as the scripted model does."""

    name = "scripted"
    context_tokens = 100_000
    is_scripted = True

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []
        self._model = ScriptedModel()

    def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk | StepEnd, None]:
        messages = tuple(structs.replace(message, parts=list(message.parts)) for message in request.messages)
        self.requests.append(structs.replace(request, messages=messages))
        return self._model.stream(request)

    @property
    def words(self) -> list[str]:
        """The texts of the last request, message by message, without the one that is being written."""
        *messages, _ = self.requests[-1].messages
        return ["".join(part.text for part in each.parts if isinstance(part, TextPart)) for each in messages]


def recording_model(monkeypatch: pytest.MonkeyPatch) -> RecordingModel:
    """Make sessions use one model that records its requests."""
    model = RecordingModel()
    monkeypatch.setattr("dragoman.builtin.session.find_model", lambda name: model)
    return model


async def ask(session: Session, *lines: str) -> list[v1.SessionUpdate]:
    """Send one prompt and return every update."""
    return [update async for update in session.prompt("\n".join(lines))]

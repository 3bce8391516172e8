"""The session as its MCP servers see it: its folders, its user, and its model.

Owns the permission for what a server asks. Questions to the user (elicitation) and to the model (sampling) reach this
only for servers that the user allowed in the settings. A question names the server, and its text is shown as the
server's. The model is asked only after the user has seen the messages and agreed, unless the settings say "always"; the
number and the length of answers are bounded, and they count as usage of the session.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET

from dragoman.agent import ClientError
from dragoman.agent.permission import ask_permission
from dragoman.builtin.mcp.client_side import ClientSide, Sample, SampleRefused, UserReply
from dragoman.builtin.models.choice import effort_for
from dragoman.builtin.models.model import ModelError, ModelRequest, StepEnd
from dragoman.errors import ConfigError, ConnectionClosed, ProtocolError, RemoteProtocolError, StoreError
from dragoman.schema import Unknown, decode, v1
from dragoman.store.ids import new_id
from dragoman.text.terminal import plain, shorten
from dragoman.text.visible import label
from dragoman.uistream.chunks import ResetStep, TextDelta
from dragoman.uistream.messages import TextPart, UIMessage

if TYPE_CHECKING:
    from dragoman.agent.elicitation import Answer
    from dragoman.agent.permission import Permission
    from dragoman.builtin.mcp.client_side import SampleRequest, UserQuestion
    from dragoman.builtin.mcp.config import ServerSpec
    from dragoman.builtin.session import OpenSession
    from dragoman.builtin.viewer import Viewer

_log = logging.getLogger("dragoman.builtin")

MOST_SAMPLES: Final = 50
"""Answers of the model for one server in one session: more than any dialogue needs, and an end for a loop."""
MOST_TOKENS: Final = 4096
_SAMPLE_SECONDS: Final = 180.0
_SHOWN_CHARACTERS: Final = 20_000
_MESSAGE_CHARACTERS: Final = 4000
_NAME_COLUMNS: Final = 60
_ALLOW: Final = "allow"
_ALLOW_SESSION: Final = "allow-session"


class SessionSide(ClientSide):
    """What one open session offers to its servers."""

    def __init__(self, session: OpenSession) -> None:
        self._session = session
        self._asking = asyncio.Lock()
        self._samples: dict[str, int] = {}
        self._allowed: set[str] = set()
        """Servers that the user allowed to use the model for the rest of the session."""
        self._pages: dict[tuple[str, str], tuple[Viewer, str]] = {}
        """Pages that are open: the client that shows each, and the id by which it knows it."""

    @property
    def roots(self) -> tuple[str, ...]:
        return () if self._session.viewer is None else tuple(dict.fromkeys(self._session.viewer.roots))

    # The user

    async def ask_user(self, spec: ServerSpec, question: UserQuestion) -> UserReply:
        """Pass a question on to the client. If it cannot show it, the question counts as dismissed."""
        name = label(spec.name, _NAME_COLUMNS)
        words = shorten(plain(question.message), _MESSAGE_CHARACTERS)
        message = f"The MCP server {name} asks: {words}"

        async def ask(viewer: Viewer) -> Answer | None:
            """Return None if the client cannot show the question."""
            if not viewer.session.client.offers("elicitation.url" if question.url else "elicitation.form"):
                return None
            await viewer.ready()
            if not question.url:
                return await viewer.session.elicit(message, _schema(question.schema or {}))
            page = os.urandom(12).hex()
            if question.id:
                self._pages[spec.name, question.id] = viewer, page
            return await viewer.session.elicit(message, url=question.url, elicitation_id=page)

        try:
            async with self._asking:
                await self._session.settle()
                reply = await self._session.ask_client(ask)
        except ConnectionClosed:
            reply = None
        except (ClientError, ProtocolError) as error:
            _log.warning("a question of MCP server %s could not be asked: %s", spec.name, error)
            await self._session.warn(f"A question of MCP server {name} could not be asked", str(error))
            return UserReply("cancel")
        if reply is None:
            await self._session.warn(f"MCP server {name} asked a question", "The client cannot show it")
        if isinstance(reply, v1.AcceptElicitation):
            content = reply.content if isinstance(reply.content, dict) else None
            return UserReply("accept", None if question.url else dict(content or {}))
        return UserReply("decline" if isinstance(reply, v1.DeclineElicitation) else "cancel")

    async def page_done(self, spec: ServerSpec, id: str) -> None:
        viewer, page = self._pages.pop((spec.name, id), (None, ""))
        if viewer is not None and viewer.is_connected:
            await viewer.session.client.complete_elicitation(page)

    # The model

    async def ask_model(self, spec: ServerSpec, request: SampleRequest) -> Sample:
        used = self._samples.get(spec.name, 0)
        if used >= MOST_SAMPLES:
            raise SampleRefused(f"this session has asked the model {MOST_SAMPLES} times for this server; no more")
        if not request.messages or request.messages[-1].role != "user":
            raise SampleRefused("the last message must be one of the user")
        self._samples[spec.name] = used + 1
        if spec.sampling != "always" and spec.name not in self._allowed:
            async with self._asking:
                await self._require_permission(spec, request)
        return await self._answer(request)

    async def _require_permission(self, spec: ServerSpec, request: SampleRequest) -> None:
        """Show the messages to the user. Raises: SampleRefused unless the answer is a yes."""
        await self._session.settle()
        name = label(spec.name, _NAME_COLUMNS)
        call = v1.ToolCallPatch(
            f"mcp_{os.urandom(8).hex()}",
            "other",
            "pending",
            f"{name}: ask the model",
            content=[v1.Content(v1.TextContent(_shown(request)))],
        )
        options = [
            v1.PermissionOption(_ALLOW, "Ask the model once", "allow_once"),
            v1.PermissionOption(_ALLOW_SESSION, f"Allow {name} to ask it in this session", "allow_always"),
            v1.PermissionOption("reject", "Refuse", "reject_once"),
        ]

        async def ask(viewer: Viewer) -> Permission | None:
            if viewer.is_headless:
                return None
            await viewer.ready()
            return await ask_permission(viewer.session, call, options)

        try:
            answer = await self._session.ask_client(ask)
        except ConnectionClosed:
            answer = None
        if answer is None:
            raise SampleRefused("no user can be asked for permission")
        if not answer:
            raise SampleRefused("the user did not allow it")
        if answer.option_id == _ALLOW_SESSION:
            self._allowed.add(spec.name)

    async def _answer(self, request: SampleRequest) -> Sample:
        """Raises: SampleRefused."""
        from dragoman.builtin.turn import usage_row

        session = self._session
        messages = [UIMessage(new_id("msg"), message.role, [TextPart(message.text)]) for message in request.messages]
        tokens = min(request.max_tokens, MOST_TOKENS) if request.max_tokens > 0 else MOST_TOKENS
        pieces: list[str] = []
        is_cut = False
        try:
            model = session.model
            asked = ModelRequest(
                (*messages, UIMessage(new_id("msg"), "assistant", [])),
                request.system,
                effort=effort_for(model.name, "minimal"),
                max_output_tokens=tokens,
            )
            async with asyncio.timeout(_SAMPLE_SECONDS):
                async for item in model.stream(asked):
                    if isinstance(item, TextDelta):
                        pieces.append(item.delta)
                    elif isinstance(item, ResetStep):
                        pieces.clear()
                    elif isinstance(item, StepEnd):
                        is_cut = item.reason == "length"
                        usage = usage_row(item, model)
                        if usage is not None:
                            await session.usage.add(usage)
        except TimeoutError:
            raise SampleRefused(f"the model did not answer within {_SAMPLE_SECONDS:g} s") from None
        except (ModelError, ConfigError, StoreError) as error:
            _log.warning("the model could not answer an MCP server: %s", error)
            raise SampleRefused("the model could not answer") from error
        return Sample("".join(pieces), session.model_name, is_cut)


def _shown(request: SampleRequest) -> str:
    """Return the messages as text, for the user who decides about them."""
    lines = [f"system: {plain(request.system)}"] if request.system else []
    lines += [f"{message.role}: {plain(message.text)}" for message in request.messages]
    return _cut("\n\n".join(lines))


def _cut(text: str) -> str:
    """Cut a text of several lines, and say so: the user decides about all of it."""
    if len(text) <= _SHOWN_CHARACTERS:
        return text
    left_out = len(text) - _SHOWN_CHARACTERS
    return f"{text[:_SHOWN_CHARACTERS]}\n… ({left_out} more characters are not shown)"


def _schema(schema: dict[str, Any]) -> v1.ElicitationSchema:
    """Read the form of a server. Raises: ProtocolError."""
    known = {name: value for name, value in schema.items() if name in ("type", "properties", "required", "title")}
    if isinstance(schema.get("description"), str):
        known["description"] = schema["description"]
    form = decode(v1.ElicitationSchema, msgspec.json.encode(known))
    if form.properties is UNSET or not form.properties:
        raise RemoteProtocolError("the form has no fields")
    odd = [name for name, field in form.properties.items() if isinstance(field, Unknown)]
    if odd:
        raise RemoteProtocolError(f"the field {odd[0]!r} of the form is of a kind that cannot be shown")
    return form

"""Questions to the user, for clients that offer them: the form of the answers, and what must not happen unasked."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from dragoman.conformance.case import CaseNeeds, Fail, Inconclusive, case
from dragoman.conformance.conversation import Silence

if TYPE_CHECKING:
    from dragoman.conformance.client.probe import ClientProbe
    from dragoman.conformance.conversation import WireMessage

_CREATE = "elicitation/create"
_ODD_ID = "007/∞ {no: uuid}"
_PROPERTIES: dict[str, Any] = {
    "name": {"type": "string", "title": "Name", "default": "Ada", "maxLength": 20},
    "size": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
    "ratio": {"type": "number", "default": 0.5},
    "fast": {"type": "boolean", "default": True},
    "colour": {"type": "string", "enum": ["red", "green"], "default": "green"},
}
_FORM = {"type": "object", "properties": _PROPERTIES, "required": ["name"]}
_TYPES: dict[str, tuple[type, ...]] = {"string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,)}


async def _ask(probe: ClientProbe, mode: str, **params: object) -> WireMessage:
    """Ask a question and wait for the answer. Raises: Inconclusive when it waits for a user."""
    try:
        return await probe.ask(_CREATE, mode=mode, message="Who are you?", **params)
    except Silence:
        raise Inconclusive("the client waits for a user before it answers a question") from None


def _action(answer: WireMessage) -> str:
    """Raises: Fail when the answer has no form of its own; Inconclusive when it is an error."""
    if answer.is_error:
        raise Inconclusive(f"a question was answered with an error: {answer}")
    action = answer.fields.get("action")
    if action not in ("accept", "decline", "cancel"):
        raise Fail(f"the result of {_CREATE} is {answer.result!r}; action is accept, decline or cancel")
    return str(action)


@case("client/elicitation/action", rules=(312,), needs=CaseNeeds(offers=("elicitation.form",)))
async def action(probe: ClientProbe) -> None:
    """A form is answered with accept, decline or cancel, and content comes with accept only.

    Shows a form with defaults; looks at the answer.
    """
    await probe.prompted()
    answer = await _ask(probe, "form", requestedSchema=_FORM)
    content = answer.fields.get("content")
    if _action(answer) != "accept" and content is not None:
        raise Fail(f"{_action(answer)} comes with the content {content!r}")
    if content is not None and not isinstance(content, dict):
        raise Fail(f"the content is {content!r}, which is not an object")


@case("client/elicitation/content", rules=(309, 313), level="SHOULD", needs=CaseNeeds(offers=("elicitation.form",)))
async def content(probe: ClientProbe) -> None:
    """Accepted content fits the form.

    Shows a form with five fields; expects values of their types if it is accepted.
    """
    await probe.prompted()
    answer = await _ask(probe, "form", requestedSchema=_FORM)
    if _action(answer) != "accept":
        raise Inconclusive("the client did not accept the form")
    found = answer.fields.get("content")
    for name, value in (found if isinstance(found, dict) else {}).items():
        wanted = _PROPERTIES.get(name)
        if wanted is None:
            raise Fail(f"the content has {name!r}, which the form does not")
        if type(value) not in _TYPES[wanted["type"]] or value not in wanted.get("enum", [value]):
            raise Fail(f"{name!r} is {value!r}, which does not fit {wanted!r}")
    if not isinstance(found, dict) or "name" not in found:
        raise Fail(f"the content {found!r} lacks the required name")


@case("client/elicitation/unknown-mode", rules=(325,), is_watched=False, needs=CaseNeeds(offers=("elicitation",)))
async def unknown_mode(probe: ClientProbe) -> None:
    """A question in a mode the client does not know is not answered as if it did.

    Asks in the mode `_judge.example/riddle`; expects an error, decline or cancel.
    """
    await probe.prompted()
    answer = await _ask(probe, "_judge.example/riddle", riddle="What walks on four legs?", requestedSchema=_FORM)
    if not answer.is_error and _action(answer) == "accept":
        raise Fail("a question in an unknown mode was accepted")


@case(
    "client/elicitation/unknown-property", rules=(325,), is_watched=False, needs=CaseNeeds(offers=("elicitation.form",))
)
async def unknown_property(probe: ClientProbe) -> None:
    """A field of an unknown type is not filled in as if it were of a known one.

    Shows a form with a field of the type `_judge.example/shade`; expects no value for it.
    """
    await probe.prompted()
    form = {"type": "object", "properties": {"shade": {"type": "_judge.example/shade", "hue": 1}}}
    answer = await _ask(probe, "form", requestedSchema=form)
    found = answer.fields.get("content")
    if not answer.is_error and isinstance(found, dict) and "shade" in found:
        raise Fail(f"a field of an unknown type was filled in with {found['shade']!r}")


@case("client/elicitation/no-prefetch", rules=(308,), needs=CaseNeeds(offers=("elicitation.url",)))
async def no_prefetch(probe: ClientProbe) -> None:
    """A URL is not opened before the user agreed to it.

    Asks the user to open a page of the judge; expects no request for it before the answer.
    """
    await probe.prompted()
    visits: list[asyncio.StreamWriter] = []

    async def visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # No answer: a client that fetches the page before it decides waits here, and so does the question.
        visits.append(writer)

    server = await asyncio.start_server(visit, "127.0.0.1", 0)
    try:
        port = server.sockets[0].getsockname()[1]
        id = probe.request(_CREATE, _question(probe, "judge-1", f"http://127.0.0.1:{port}/"))
        try:
            _action(await probe.answer(id, "answer to a question in url mode"))
        except Silence:
            if visits:
                raise Fail("the URL was fetched before the question was answered") from None
            raise Inconclusive("the client waits for a user before it answers a question") from None
    finally:
        server.close()
        for writer in visits:
            writer.close()


@case("client/elicitation/unknown-complete", rules=(317, 319))
async def unknown_complete(probe: ClientProbe) -> None:
    """Ids of elicitations are opaque, and elicitation/complete for one that is unknown or done is ignored.

    Completes an elicitation twice, and one that never was; expects the turn to go on.
    """
    turn = await probe.prompted()
    if probe.offers("elicitation.url"):
        id = probe.request(_CREATE, _question(probe, _ODD_ID, "https://judge.example/"))
        await probe.settle()
        if any(message.answers(id) for message in probe.incoming):
            probe.notify("elicitation/complete", {"elicitationId": _ODD_ID})
            probe.notify("elicitation/complete", {"elicitationId": _ODD_ID})
    probe.notify("elicitation/complete", {"elicitationId": "never-asked"})
    await probe.require_well(turn, "elicitation/complete for an unknown id")


def _question(probe: ClientProbe, id: str, url: str) -> dict[str, Any]:
    scope = {"sessionId": probe.session_id, "mode": "url", "message": "Please log in"}
    return {**scope, "elicitationId": id, "url": url}

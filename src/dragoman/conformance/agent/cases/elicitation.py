"""Asking the user: the form, the page, and every answer a user can give."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from dragoman.conformance.case import Fail, Warn, case
from dragoman.conformance.expect import expect_stop
from dragoman.errors import RemoteProtocolError
from dragoman.schema import decode, v1

if TYPE_CHECKING:
    from dragoman.conformance.agent.probe import AgentProbe, AgentTurn
    from dragoman.conformance.conversation import WireMessage

_CREATE = "elicitation/create"
_SECRETS = re.compile(r"passw|secret|token|api.?key|credential|\bpin\b", re.IGNORECASE)


@case(
    "agent/elicitation/form",
    rules=(302, 303),
    about="a form has its mode, a message, one scope, and a flat schema of simple properties",
)
async def form(probe: AgentProbe) -> None:
    """Leads the agent to ask with a form; expects elicitation/create as the schema has it."""
    _, asked = await _asked(probe, "form")
    _expect_scope(asked)
    for name, wanted in ((asked.params.get("requestedSchema") or {}).get("properties") or {}).items():
        if not isinstance(wanted, dict) or wanted.get("type") not in (
            "string",
            "number",
            "integer",
            "boolean",
            "array",
        ):
            raise Fail(f"the property {name!r} is {wanted!r}")


@case(
    "agent/elicitation/no-secrets",
    rules=(311, 321),
    level="SHOULD",
    about="a form does not ask for secrets (a page has to), and holds no links",
)
async def no_secrets(probe: AgentProbe) -> None:
    """Leads the agent to ask with a form; expects no property that looks like a secret, and no link in its texts."""
    _, asked = await _asked(probe, "form")
    for name, wanted in ((asked.params.get("requestedSchema") or {}).get("properties") or {}).items():
        texts = [name, *(str(wanted.get(member) or "") for member in ("title", "description"))]
        if any(_SECRETS.search(text) for text in texts):
            raise Fail(f"the form asks for {name!r}")
        if any("http://" in text or "https://" in text for text in texts):
            raise Warn(f"the property {name!r} holds a link")


@case(
    "agent/elicitation/page",
    rules=(302, 304),
    about="a page has its mode, a message, one scope, an id and an address",
)
async def page(probe: AgentProbe) -> None:
    """Leads the agent to ask with a page; expects elicitation/create as the schema has it."""
    _, asked = await _asked(probe, "url")
    _expect_scope(asked)
    if not urlsplit(str(asked.params.get("url"))).scheme:
        raise Fail(f"`url` is {asked.params.get('url')!r}")


@case(
    "agent/elicitation/safe-page",
    rules=(320,),
    level="SHOULD",
    about="the address of a page is HTTPS and carries no secret",
)
async def safe_page(probe: AgentProbe) -> None:
    """Leads the agent to ask with a page; expects https, and nothing like a secret in the address."""
    _, asked = await _asked(probe, "url")
    url = urlsplit(str(asked.params.get("url")))
    if url.scheme != "https" and url.hostname not in ("localhost", "127.0.0.1", "::1"):
        raise Fail(f"the address is {url.scheme}, not https")
    if url.password or _SECRETS.search(url.query):
        raise Fail("the address carries something like a secret")


@case(
    "agent/elicitation/unique-ids",
    rules=(316,),
    about="two pages that are open at the same time have two ids",
)
async def unique_ids(probe: AgentProbe) -> None:
    """Leads the agent to a page in two sessions and answers neither; expects two ids."""
    probe.services.hold.add(_CREATE)
    turns = [await probe.act("url") for _ in range(2)]
    asked = [await turn.first_request(_CREATE) for turn in turns]
    for request in asked:
        probe.reply(request, {"action": "decline"})
    for turn in turns:
        await turn.end()
    ids = [request.params.get("elicitationId") for request in asked]
    if ids[0] == ids[1]:
        raise Fail(f"two open pages have the id {ids[0]!r}")


@case(
    "agent/elicitation/completed",
    rules=(318,),
    about="elicitation/complete names a page this client was asked to open",
)
async def completed(probe: AgentProbe) -> None:
    """Leads the agent to a page and accepts; expects that what is completed was asked for."""
    turn, asked = await _asked(probe, "url")
    await probe.settle()
    for message in probe.since(turn.mark, lambda message: message.method == "elicitation/complete"):
        if message.params.get("elicitationId") != asked.params.get("elicitationId"):
            raise Fail(f"the page {message.params.get('elicitationId')!r} was never asked for")


@case(
    "agent/elicitation/declined",
    rules=(314,),
    about="a user who declines gets a turn that goes on without",
)
async def declined(probe: AgentProbe) -> None:
    """Declines a form; expects the turn to end with a stop reason."""
    probe.services.form = "decline"
    await _expect_survives(probe)


@case(
    "agent/elicitation/cancelled",
    rules=(314,),
    about="a user who dismisses the question gets a turn that goes on without",
)
async def cancelled(probe: AgentProbe) -> None:
    """Answers a form with cancel; expects the turn to end with a stop reason."""
    probe.services.form = "cancel"
    await _expect_survives(probe)


@case(
    "agent/elicitation/failed",
    rules=(25, 314, 339),
    about="a question that fails does not leave the prompt without an answer",
)
async def failed(probe: AgentProbe) -> None:
    """Answers a form with the error -31999; expects an answer to the prompt, and the agent to live."""
    probe.services.errors[_CREATE] = -31999
    await _asked(probe, "form")
    await probe.require_alive("an elicitation that failed")


@case(
    "agent/elicitation/unknown-action",
    rules=(326,),
    about="an action the protocol does not know is none of those it knows: the prompt is answered",
)
async def unknown_action(probe: AgentProbe) -> None:
    """Answers a form with an action of the future; expects an answer to the prompt, and the agent to live."""
    probe.services.form = "_later"
    await _asked(probe, "form")
    await probe.require_alive("an unknown action")


@case(
    "agent/elicitation/unfit-content",
    rules=(310,),
    level="SHOULD",
    about="content that does not fit the form is not taken for granted: the prompt is answered",
)
async def unfit_content(probe: AgentProbe) -> None:
    """Accepts a form with content of other names; expects an answer to the prompt, and the agent to live."""
    probe.services.answers[_CREATE] = lambda params: {"action": "accept", "content": {"no-such-property": 5}}
    await _asked(probe, "form")
    await probe.require_alive("content that does not fit")


async def _asked(probe: AgentProbe, action: str) -> tuple[AgentTurn, WireMessage]:
    """A turn that asked the user, and its request."""
    turn = await probe.act(action)
    asked = await turn.first_request(_CREATE)
    await turn.end()
    return turn, asked


async def _expect_survives(probe: AgentProbe) -> None:
    turn = await probe.act("form")
    await turn.first_request(_CREATE)
    expect_stop(await turn.end())


def _expect_scope(asked: WireMessage) -> None:
    params: dict[str, Any] = asked.params
    if params.get("mode") not in ("form", "url"):
        raise Fail(f"the mode is {params.get('mode')!r}")
    if (params.get("sessionId") is None) == (params.get("requestId") is None):
        raise Fail("the request has not exactly one of sessionId and requestId")
    try:
        decode(v1.CreateElicitationRequest, msgspec.json.encode(params))
    except RemoteProtocolError as error:
        raise Fail(f"the request does not fit the schema: {error}") from error

"""Asking the user: the form, the page, and every answer a user can give."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from dragoman.conformance.case import Fail, Warn, case
from dragoman.conformance.expect import expect_stop
from dragoman.errors import RemoteProtocolError
from dragoman.schema import decode, v1

if TYPE_CHECKING:
    from dragoman.conformance.agent.probe import AgentProbe
    from dragoman.conformance.conversation import WireMessage

_CREATE = "elicitation/create"
_TYPES = ("string", "number", "integer", "boolean", "array")
# What is called so is one; a name that only holds such a word (`token_limit`) may be something else.
_SECRET = re.compile(
    r"(\w+[ _-])?(password|passwd|passphrase|secret|credentials?|api[ _-]?key|(access|auth|bearer)[ _-]?token|pin)",
    re.IGNORECASE,
)
_SECRETS = re.compile(r"passw|secret|token|api.?key|credential|\bpin\b", re.IGNORECASE)


@case("agent/elicitation/form", rules=(302, 303))
async def form(probe: AgentProbe) -> None:
    """A form has its mode, a message, one scope, and a flat schema of simple properties.

    Leads the agent to ask with a form; expects elicitation/create as the schema has it.
    """
    asked = (await probe.served("form", _CREATE)).request
    _expect_scope(asked)
    for name, wanted in _properties(asked).items():
        if not isinstance(wanted, dict) or wanted.get("type") not in _TYPES:
            raise Fail(f"the property {name!r} is {wanted!r}")


@case("agent/elicitation/no-secrets", rules=(311, 321))
async def no_secrets(probe: AgentProbe) -> None:
    """A form does not ask for secrets (a page has to), and holds no links.

    Leads the agent to ask with a form; expects no property that looks like a secret, and no link in its texts.
    """
    asked = (await probe.served("form", _CREATE)).request
    for name, wanted in _properties(asked).items():
        texts = [name, *(str(wanted.get(member) or "") for member in ("title", "description"))]
        if wanted.get("format") == "password" or any(_SECRET.fullmatch(text) for text in texts):
            raise Fail(f"the form asks for {name!r}")
        if any(_SECRETS.search(text) for text in texts):
            raise Warn(f"the form asks for {name!r}, which may be a secret")
        if any("http://" in text or "https://" in text for text in texts):
            raise Warn(f"the property {name!r} holds a link")


@case("agent/elicitation/page", rules=(302, 304))
async def page(probe: AgentProbe) -> None:
    """A page has its mode, a message, one scope, an id and an address.

    Leads the agent to ask with a page; expects elicitation/create as the schema has it.
    """
    asked = (await probe.served("url", _CREATE)).request
    _expect_scope(asked)
    if not urlsplit(str(asked.params.get("url"))).scheme:
        raise Fail(f"`url` is {asked.params.get('url')!r}")


@case("agent/elicitation/safe-page", rules=(320,))
async def safe_page(probe: AgentProbe) -> None:
    """The address of a page is HTTPS and carries no secret.

    Leads the agent to ask with a page; expects https, and nothing like a secret in the address.
    """
    asked = (await probe.served("url", _CREATE)).request
    url = urlsplit(str(asked.params.get("url")))
    names = [name for name, value in parse_qsl(url.query) if value]
    if url.password or any(_SECRET.fullmatch(name) for name in names):
        raise Fail("the address carries a secret")
    if _SECRETS.search(url.query):
        raise Warn("the address may carry a secret")
    if url.scheme != "https" and url.hostname not in ("localhost", "127.0.0.1", "::1"):
        raise Warn(f"the address is {url.scheme}, not https")


@case("agent/elicitation/unique-ids", rules=(316,))
async def unique_ids(probe: AgentProbe) -> None:
    """Two pages that are open at the same time have two ids.

    Leads the agent to a page in two sessions and answers neither; expects two ids.
    """
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


@case("agent/elicitation/completed", rules=(318,))
async def completed(probe: AgentProbe) -> None:
    """elicitation/complete names a page this client was asked to open.

    Leads the agent to a page and accepts; expects that what is completed was asked for.
    """
    turn, asked, _ = await probe.served("url", _CREATE)
    await probe.settle()
    for message in turn.sent("elicitation/complete"):
        if message.params.get("elicitationId") != asked.params.get("elicitationId"):
            raise Fail(f"the page {message.params.get('elicitationId')!r} was never asked for")


@case("agent/elicitation/declined", rules=(314,))
async def declined(probe: AgentProbe) -> None:
    """A user who declines gets a turn that goes on without.

    Declines a form; expects the turn to end with a stop reason.
    """
    probe.services.form = "decline"
    expect_stop((await probe.served("form", _CREATE)).end)


@case("agent/elicitation/cancelled", rules=(314,))
async def cancelled(probe: AgentProbe) -> None:
    """A user who dismisses the question gets a turn that goes on without.

    Answers a form with cancel; expects the turn to end with a stop reason.
    """
    probe.services.form = "cancel"
    expect_stop((await probe.served("form", _CREATE)).end)


@case("agent/elicitation/failed", rules=(25, 314, 339))
async def failed(probe: AgentProbe) -> None:
    """A question that fails does not leave the prompt without an answer.

    Answers a form with the error -31999; expects an answer to the prompt, and the agent to live.
    """
    probe.services.errors[_CREATE] = -31999
    await probe.served("form", _CREATE)
    await probe.require_alive("an elicitation that failed")


@case("agent/elicitation/unknown-action", rules=(326,), provokes=True)
async def unknown_action(probe: AgentProbe) -> None:
    """An action the protocol does not know is none of those it knows: the prompt is answered.

    Answers a form with an action of the future; expects an answer to the prompt, and the agent to live.
    """
    probe.services.form = "_later"
    await probe.served("form", _CREATE)
    await probe.require_alive("an unknown action")


@case("agent/elicitation/unfit-content", rules=(310,), level="SHOULD", provokes=True)
async def unfit_content(probe: AgentProbe) -> None:
    """Content that does not fit the form is not simply accepted: the prompt is answered.

    Accepts a form with content of other names; expects an answer to the prompt, and the agent to live.
    """
    probe.services.answers[_CREATE] = lambda params: {"action": "accept", "content": {"no-such-property": 5}}
    await probe.served("form", _CREATE)
    await probe.require_alive("content that does not fit")


def _properties(asked: WireMessage) -> dict[str, Any]:
    return (asked.params.get("requestedSchema") or {}).get("properties") or {}


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

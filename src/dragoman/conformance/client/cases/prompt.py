"""Prompts: what they hold, that one runs at a time, and what the client makes of their ends."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dragoman.conformance.case import Case, Fail, add_cases, case
from dragoman.conformance.conversation import as_json

if TYPE_CHECKING:
    from dragoman.conformance.client.probe import ClientProbe

# Line breaks and the alphabet of URLs are taken by most readers.
_BASE64 = re.compile(r"[A-Za-z0-9+/_=\s-]*")
_MEMBERS = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource_link": ("uri", "name"),
    "resource": (),
}


@case("client/prompt/blocks", rules=(178, 228, 230, 234), shares="plain")
async def blocks(probe: ClientProbe) -> None:
    """A prompt is an array of content blocks of known types with all they need.

    Looks at the prompt; expects every block to have a known type and its members.
    """
    for block in _blocks(probe):
        needed = _MEMBERS.get(str(block.get("type"))) if isinstance(block, dict) else None
        if needed is None:
            raise Fail(f"the prompt holds {block!r}")
        for name in needed:
            if not isinstance(block.get(name), str):
                raise Fail(f"a block of type {block['type']} has the {name} {block.get(name)!r}")


@case("client/prompt/media", rules=(231, 232, 233), shares="plain")
async def media(probe: ClientProbe) -> None:
    """Images and audio are base64, an embedded resource has a uri and either text or a blob.

    Looks at the prompt to an agent that takes everything.
    """
    for block in (block for block in _blocks(probe) if isinstance(block, dict)):
        if block.get("type") in ("image", "audio"):
            _expect_base64(block.get("data"), f"the data of {block['type']}")
        elif block.get("type") == "resource":
            resource = block.get("resource")
            if not isinstance(resource, dict) or not isinstance(resource.get("uri"), str):
                raise Fail(f"an embedded resource is {resource!r}")
            if ("text" in resource) == ("blob" in resource):
                raise Fail(f"an embedded resource has text and blob, or neither: {sorted(resource)}")
            if "blob" in resource:
                _expect_base64(resource["blob"], "the blob of a resource")


@case("client/prompt/annotations", rules=(235,), shares="plain")
async def block_annotations(probe: ClientProbe) -> None:
    """annotations, if a block has any, name audiences of user and assistant and a number as priority.

    Looks at the annotations in the prompt, if there are any.
    """
    for block in (block for block in _blocks(probe) if isinstance(block, dict)):
        found = block.get("annotations")
        if found is None:
            continue
        audience = found.get("audience") if isinstance(found, dict) else False
        priority = found.get("priority") if isinstance(found, dict) else None
        is_known = audience is None or (isinstance(audience, list) and set(audience) <= {"user", "assistant"})
        if not is_known or not isinstance(priority, int | float | None):
            raise Fail(f"a block has the annotations {found!r}")


@case("client/prompt/one-at-a-time", rules=(187,), level="SHOULD")
async def one_at_a_time(probe: ClientProbe) -> None:
    """The next prompt of a session waits for the end of the turn.

    Lets a turn take a moment; expects no second prompt of the session in that time.
    """
    turn = await probe.prompted()
    turn.send_text("Thinking.")
    await probe.settle()
    again = probe.since(turn.request.index + 1, lambda message: message.method == "session/prompt")
    if any(message.params.get("sessionId") == turn.session_id for message in again):
        raise Fail("a second prompt was sent while the first one still runs")


@case("client/prompt/more-in-result", rules=(191, 327))
async def more_in_result(probe: ClientProbe) -> None:
    """A prompt's result may hold usage and _meta next to the stop reason.

    Ends the turn with usage, _meta and an unknown member; expects the client to leave as usual.
    """
    turn = await probe.prompted()
    usage = {"totalTokens": 3, "inputTokens": 1, "outputTokens": 2}
    turn.end(usage=usage, _meta={"stopReason": "refusal", "self": 1}, futureMember=None)
    await probe.require_usual_exit("a prompt's result with more than the stop reason")


@dataclass(frozen=True, kw_only=True)
class _TurnEnd(Case):
    """A turn that ends in an unusual way: a client that usually leaves does so, and any other still answers."""

    answer: Mapping[str, Any]
    """The members `result` or `error` of the answer to the prompt."""
    what: str
    """How the turn ended, for the failure."""

    @property
    def steps(self) -> str:
        return (
            f"Answers the prompt with {as_json(self.answer)}; expects the client to leave or to answer another request."
        )

    async def run(self, probe: ClientProbe) -> None:
        turn = await probe.prompted()
        probe.hold.discard("session/prompt")
        probe.send({"jsonrpc": "2.0", "id": turn.request.id, **self.answer})
        if not probe.baseline.leaves:
            await probe.require_alive(self.what)
        elif await probe.exit_code() is None:
            raise Fail(f"after {self.what} the client neither went on nor left")


add_cases(
    _TurnEnd(
        "client/prompt/every-stop-reason",
        rules=(183,),
        level="SHOULD",
        about="a turn may end with any stop reason; none of them leaves the client waiting",
        answer={"result": {"stopReason": "refusal"}},
        what="a refusal",
    ),
    _TurnEnd(
        "client/prompt/unknown-stop-reason",
        rules=(183,),
        level="SHOULD",
        about="a stop reason the client does not know ends the turn like any other",
        answer={"result": {"stopReason": "_judge.example/tired"}},
        what="an unknown stop reason",
    ),
    _TurnEnd(
        "client/prompt/unknown-error",
        rules=(339,),
        about="an error with a code the client does not know is a failure like any other; the client does not hang",
        answer={"error": {"code": -31999, "message": "The judge is out of ink"}},
        what="an error with an unknown code",
    ),
    _TurnEnd(
        "client/prompt/malformed-error",
        rules=(23, 339),
        level="SHOULD",
        about="an error that is not an object still ends the request; the client does not hang",
        is_watched=False,
        answer={"error": "boom"},
        what="an error that is not an object",
    ),
)


def _blocks(probe: ClientProbe) -> list[Any]:
    found = probe.first("session/prompt").params.get("prompt")
    if not isinstance(found, list):
        raise Fail(f"the prompt is {found!r}, not an array")
    return found


def _expect_base64(value: object, what: str) -> None:
    if not isinstance(value, str) or not _BASE64.fullmatch(value):
        raise Fail(f"{what} is not base64")

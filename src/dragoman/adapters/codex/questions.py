"""What Codex asks during a turn, and the user's answer in its own words.

Owns the options: those that Codex offers, with their scopes. Codex accepts `decline` also where it does not offer it,
so a user can always refuse without ending the turn. Everything that is not clearly a yes is a no. A question of an
unknown kind is refused with an error, so that Codex does not wait forever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.adapters.codex.items import shown_item, unwrapped
from dragoman.adapters.context import AskedCall
from dragoman.adapters.forms import form_for
from dragoman.adapters.values import AskOption
from dragoman.schema import v1
from dragoman.text.terminal import one_line, plain
from dragoman.uistream import chunks as c
from dragoman.uistream.display import ToolDisplay

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.adapters.codex.events import CodexEvents
    from dragoman.adapters.codex.messages import CodexQuestion
    from dragoman.adapters.context import PromptContext
    from dragoman.adapters.values import AskAnswer

_ACCEPT: Final = AskOption("accept", "Allow")
_ACCEPT_FOR_SESSION: Final = AskOption("accept_for_session", "Allow for this session", scope="session")
_DECLINE: Final = AskOption("decline", "Reject", allows=False)
_CANCEL: Final = AskOption("cancel", "Reject, and stop", allows=False)
_SIMPLE: Final = {
    "accept": _ACCEPT,
    "acceptForSession": _ACCEPT_FOR_SESSION,
    "decline": _DECLINE,
    "cancel": _CANCEL,
}
_USUAL: Final = ("accept", "acceptForSession", "decline", "cancel")
_MCP_CALL: Final = "mcp_tool_call"


class OfferedDecision(msgspec.Struct, frozen=True):
    """One option, and what Codex is answered if it is chosen."""

    option: AskOption
    answer: Any


async def answer_question(ctx: PromptContext, events: CodexEvents, question: CodexQuestion) -> dict[str, Any] | None:
    """Ask the user. Returns the result for Codex; None for a question of an unknown kind."""
    params = question.params
    match question.method:
        case "item/commandExecution/requestApproval":
            await _show_command(ctx, events, params)
            call = str(params.get("itemId"))
            known: str | AskedCall = call if events.item(call) is not None else _unannounced(params)
            return {"decision": await _ask(ctx, known, command_offers(params))}
        case "item/fileChange/requestApproval":
            call = str(params.get("itemId"))
            known = call if events.item(call) is not None else AskedCall("apply_patch", {}, "Change files")
            return {"decision": await _ask(ctx, known, _decisions(_USUAL))}
        case "item/permissions/requestApproval":
            return await _ask_permissions(ctx, params)
        case "mcpServer/elicitation/request":
            return await _ask_for_server(ctx, events, params)
        case "item/tool/requestUserInput":
            return await _ask_user(ctx, params)
    return None


def command_offers(params: dict[str, Any]) -> list[OfferedDecision]:
    """Return the options for a command, in the order that Codex has them; to refuse and go on is always possible."""
    decisions = params.get("availableDecisions")
    if not isinstance(decisions, list) or not decisions:
        return _decisions(_USUAL)
    offers = [offer for decision in decisions for offer in _offer(decision)]
    if all(offer.answer != "decline" for offer in offers):
        place = next((index for index, offer in enumerate(offers) if not offer.option.allows), len(offers))
        offers.insert(place, OfferedDecision(_DECLINE, "decline"))
    return list({offer.option.id: offer for offer in reversed(offers)}.values())[::-1]


def _offer(decision: Any) -> list[OfferedDecision]:
    match decision:
        case str(name) if name in _SIMPLE:
            return [OfferedDecision(_SIMPLE[name], name)]
        case {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": words}}:
            shown = " ".join(map(str, words)) if isinstance(words, list) else str(words)
            label = f"Always allow commands that begin with: {one_line(plain(shown))}"
            return [OfferedDecision(AskOption("accept_always", label, scope="always"), decision)]
        case {"applyNetworkPolicyAmendment": {"network_policy_amendment": {"host": host, "action": action}}}:
            host = one_line(plain(str(host)))
            if action == "allow":
                label = f"Always allow access to {host}"
                return [OfferedDecision(AskOption("allow_host", label, scope="always"), decision)]
            label = f"Always block access to {host}"
            return [OfferedDecision(AskOption("block_host", label, allows=False, scope="always"), decision)]
    return []


def _decisions(names: Sequence[str]) -> list[OfferedDecision]:
    return [OfferedDecision(_SIMPLE[name], name) for name in names]


async def _ask(
    ctx: PromptContext, call: str | AskedCall, offers: Sequence[OfferedDecision], default: Any = "decline"
) -> Any:
    answer: AskAnswer = await ctx.ask(call, [offer.option for offer in offers])
    if answer.option is None:
        return default
    return next((offer.answer for offer in offers if offer.option.id == answer.option.id), default)


async def _show_command(ctx: PromptContext, events: CodexEvents, params: dict[str, Any]) -> None:
    """Show the command itself as the title of the call: the user decides about it, not about a summary of it."""
    call, command = str(params.get("itemId")), params.get("command")
    item = events.item(call)
    if item is None or not isinstance(command, str):
        return
    shown = shown_item({**item, "command": command, "commandActions": []})
    network = params.get("networkApprovalContext")
    title = shown.title
    if isinstance(network, dict) and network.get("host"):
        title = f"Access {one_line(plain(str(network['host'])))}: {title}"
    reason = params.get("reason")
    if isinstance(reason, str) and reason.strip() and command not in reason:
        title = f"{title} ({one_line(plain(reason)).strip()})"
    display = msgspec.to_builtins(shown.display)
    await ctx.emit(c.Data("tool-display", {"tool_call_id": call, "title": title, "display": display}))


def _unannounced(params: dict[str, Any]) -> AskedCall:
    """Return the call of a question about an item that was not reported, such as one of a sub-agent."""
    command = unwrapped(str(params.get("command") or params.get("reason") or "a command"))
    title = one_line(plain(command))
    return AskedCall("command", {"command": command, "cwd": params.get("cwd")}, title, ToolDisplay("execute"))


async def _ask_permissions(ctx: PromptContext, params: dict[str, Any]) -> dict[str, Any]:
    """Ask for more access for the sandbox: for this turn, for the session, or not."""
    wanted = params.get("permissions")
    reason = params.get("reason")
    title = f"More access for commands{f': {one_line(plain(reason))}' if isinstance(reason, str) and reason else ''}"
    given = {key: value for key, value in (wanted or {}).items() if value} if isinstance(wanted, dict) else {}
    offers = [
        OfferedDecision(AskOption("turn", "Allow for this turn"), "turn"),
        OfferedDecision(AskOption("session", "Allow for this session", scope="session"), "session"),
        OfferedDecision(_DECLINE, None),
    ]
    scope = await _ask(ctx, AskedCall("permissions", given, title, ToolDisplay("execute")), offers, None)
    return {"permissions": {} if scope is None else given, "scope": scope or "turn"}


# MCP servers


async def _ask_for_server(ctx: PromptContext, events: CodexEvents, params: dict[str, Any]) -> dict[str, Any]:
    """Return a question about a call of an MCP server, or of the server itself."""
    meta = params.get("_meta")
    meta = meta if isinstance(meta, dict) else {}
    server, message = str(params.get("serverName")), plain(str(params.get("message") or ""))
    if meta.get("codex_approval_kind") == _MCP_CALL:
        given = meta.get("tool_params")
        call = events.call_of(server, given) or AskedCall("mcp_tool", given, one_line(message))
        chosen = await _ask(ctx, call, mcp_offers(meta.get("persist")), "decline")
        if chosen in ("decline", "cancel"):
            return {"action": chosen, "content": None, "_meta": None}
        return {"action": "accept", "content": {}, "_meta": chosen}
    schema = params.get("requestedSchema")
    if params.get("mode") == "url" or not isinstance(schema, dict):
        where = f" Open {params.get('url')}" if params.get("url") else ""
        await ctx.notice(f"The MCP server {server} asks for something that cannot be shown here", f"{message}{where}")
        return {"action": "decline", "content": None, "_meta": None}
    form, answer_of = form_for(schema)
    filled = await ctx.form(f"{server}: {message}", form)
    if filled is None:
        return {"action": "decline", "content": None, "_meta": None}
    return {"action": "accept", "content": answer_of(filled), "_meta": None}


def mcp_offers(scopes: Any) -> list[OfferedDecision]:
    """Return the options for a call of an MCP server; the answer of one that allows is its `_meta`."""
    offers = [OfferedDecision(_ACCEPT, None)]
    if scopes == "session" or (isinstance(scopes, list) and "session" in scopes):
        offers.append(OfferedDecision(_ACCEPT_FOR_SESSION, {"persist": "session"}))
    if scopes == "always" or (isinstance(scopes, list) and "always" in scopes):
        offers.append(
            OfferedDecision(AskOption("accept_always", "Always allow", scope="always"), {"persist": "always"})
        )
    return [*offers, *_decisions(("decline", "cancel"))]


# Questions to the user


async def _ask_user(ctx: PromptContext, params: dict[str, Any]) -> dict[str, Any]:
    """Ask questions of the model, such as it has when it plans: one form, or one question after the other."""
    found = params.get("questions")
    questions = [question for question in (found if isinstance(found, list) else ()) if isinstance(question, dict)]
    if ctx.has_forms:
        fields: dict[str, Any] = {str(question.get("id")): _field(question) for question in questions}
        asked = "\n".join(plain(str(question.get("question") or "")) for question in questions)
        form = v1.ElicitationSchema(properties=fields, required=list(fields))
        filled = await ctx.form(asked or "Codex asks", form) or {}
        return {"answers": {name: {"answers": [str(value)]} for name, value in filled.items() if value}}
    answers: dict[str, Any] = {}
    for question in questions:
        labels = _labels(question)
        if not labels:
            continue
        options = [AskOption(label, label) for label in labels]
        title = one_line(plain(str(question.get("question") or "Codex asks")))
        call = AskedCall("question", {"options": labels}, title, ToolDisplay("think"))
        answer = await ctx.ask(call, [*options, AskOption("no_answer", "No answer", allows=False)])
        if answer.allowed and answer.option is not None:
            await ctx.result(answer.call_id, answer.option.id)
            answers[str(question.get("id"))] = {"answers": [answer.option.id]}
    return {"answers": answers}


def _field(question: dict[str, Any]) -> v1.StringPropertySchema:
    labels = _labels(question)
    title = one_line(plain(str(question.get("header") or question.get("question") or "Answer")))
    if labels and question.get("isOther") is not True:
        return v1.StringPropertySchema(title=title, enum=labels)
    hint = f" ({', '.join(labels)}, or anything else)" if labels else ""
    return v1.StringPropertySchema(title=f"{title}{hint}")


def _labels(question: dict[str, Any]) -> list[str]:
    options = question.get("options")
    labels = [
        plain(option["label"])
        for option in (options if isinstance(options, list) else ())
        if isinstance(option, dict) and isinstance(option.get("label"), str)
    ]
    return list(dict.fromkeys(labels))

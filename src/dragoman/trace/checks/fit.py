"""Checks whether a message fits the schema: what the decoder refused, dropped, or accepted without a name for it.

Owns the step from a path inside a message to the rule that describes that type. Does not depend on order or state.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from dragoman.trace.checks.shape import OWN_WORDS, Oddity, oddities, owner_of

if TYPE_CHECKING:
    from dragoman.trace.checks.facts import Facts
    from dragoman.trace.inspect.exchange import DecodedFrame

ANY_TYPE: Final = 40  # follow the agreed version: later frames fit its schema
META: Final = 327
EXTRA_MEMBER: Final = 329
CAMEL_CASE: Final = 26

# The rule that describes a type, or a member of it.
RULES: Final[dict[str, int]] = {
    "InitializeRequest": 43,
    "InitializeRequest.protocolVersion": 37,
    "InitializeResponse": 42,
    "InitializeResponse.protocolVersion": 37,
    "InitializeResponse.authMethods": 64,
    "Implementation": 46,
    "FileSystemCapabilities": 58,
    "PromptCapabilities": 58,
    "McpCapabilities": 58,
    "AuthCapabilities": 58,
    "ClientCapabilities": 57,
    "ClientCapabilities.terminal": 58,
    "ClientSessionCapabilities": 57,
    "SessionConfigOptionsCapabilities": 57,
    "ElicitationCapabilities": 57,
    "AgentCapabilities": 57,
    "AgentCapabilities.loadSession": 58,
    "AgentAuthCapabilities": 57,
    "SessionCapabilities": 57,
    "AuthMethodAgent": 64,
    "AuthMethodTerminal": 64,
    "AuthMethodTerminal.env": 74,
    "AuthenticateRequest": 67,
    "AuthenticateResponse": 76,
    "LogoutResponse": 76,
    "NewSessionRequest": 84,
    "NewSessionResponse": 85,
    "McpServerStdio": 98,
    "EnvVariable": 98,
    "McpServerHttp": 99,
    "McpServerSse": 99,
    "HttpHeader": 99,
    "LoadSessionRequest": 105,
    "LoadSessionResponse": 109,
    "ResumeSessionRequest": 111,
    "CloseSessionRequest": 115,
    "CloseSessionResponse": 117,
    "ListSessionsRequest": 123,
    "ListSessionsResponse": 126,
    "SessionInfo": 127,
    "DeleteSessionResponse": 136,
    "SessionConfigSelect": 147,
    "SessionConfigSelect.currentValue": 152,
    "SessionConfigSelect.options": 148,
    "SessionConfigSelect.category": 157,
    "SessionConfigSelectOption": 148,
    "SessionConfigSelectGroup": 148,
    "SessionConfigBoolean": 147,
    "SessionConfigBoolean.category": 157,
    "SessionConfigBoolean.currentValue": 151,
    "SetSessionConfigSelect": 162,
    "SetSessionConfigBoolean": 162,
    "SetSessionConfigOptionResponse": 163,
    "ConfigOptionUpdate": 164,
    "SessionModeState": 170,
    "SessionMode": 170,
    "SetSessionModeRequest": 171,
    "SetSessionModeResponse": 173,
    "CurrentModeUpdate": 174,
    "PromptRequest": 178,
    "PromptResponse": 181,
    "CancelNotification": 192,
    "CancelRequestNotification": 201,
    "SessionNotification": 210,
    "UserMessageChunk": 211,
    "AgentMessageChunk": 211,
    "AgentThoughtChunk": 211,
    "UsageUpdate": 215,
    "Cost": 215,
    "SessionInfoUpdate": 217,
    "Notice": 219,
    "CompactionUpdate": 222,
    "CompactionSummaryChunk": 224,
    "TextContent": 230,
    "ImageContent": 231,
    "AudioContent": 232,
    "EmbeddedResource": 233,
    "TextResourceContents": 233,
    "BlobResourceContents": 233,
    "ResourceLink": 234,
    "Annotations": 235,
    "ToolCall": 239,
    "ToolCall.kind": 240,
    "ToolCall.status": 241,
    "ToolCall.name": 250,
    "ToolCallUpdate": 242,
    "ToolCallUpdate.kind": 240,
    "ToolCallUpdate.status": 241,
    "ToolCallUpdate.name": 250,
    "ToolCallPatch": 242,
    "ToolCallPatch.kind": 240,
    "ToolCallPatch.status": 241,
    "ToolCallPatch.name": 250,
    "Content": 245,
    "Terminal": 245,
    "Diff": 246,
    "ToolCallLocation": 248,
    "RequestPermissionRequest": 253,
    "PermissionOption": 254,
    "RequestPermissionResponse": 255,
    "CancelledPermissionOutcome": 255,
    "SelectedPermissionOutcome": 255,
    "Plan": 263,
    "PlanEntry": 263,
    "AvailableCommandsUpdate": 269,
    "AvailableCommand": 269,
    "UnstructuredCommandInput": 269,
    "ReadTextFileRequest": 275,
    "ReadTextFileResponse": 277,
    "WriteTextFileRequest": 273,
    "WriteTextFileResponse": 279,
    "CreateTerminalRequest": 283,
    "CreateTerminalResponse": 285,
    "TerminalOutputResponse": 288,
    "TerminalExitStatus": 289,
    "WaitForTerminalExitResponse": 289,
    "ElicitationFormMode": 302,
    "ElicitationUrlMode": 302,
    "ElicitationUrlMode.elicitationId": 304,
    "ElicitationUrlMode.url": 304,
    "ElicitationSchema": 303,
    "StringPropertySchema": 303,
    "NumberPropertySchema": 303,
    "IntegerPropertySchema": 303,
    "BooleanPropertySchema": 303,
    "MultiSelectPropertySchema": 303,
    "StringMultiSelectItems": 303,
    "TitledMultiSelectItems": 303,
    "EnumOption": 303,
    "AcceptElicitation": 312,
    "DeclineElicitation": 312,
    "CancelElicitation": 312,
    "CompleteElicitationNotification": 318,
}
# First variant of a union -> the rule that lists its variants.
VARIANT_RULES: Final = {
    "TextContent": 228,
    "UserMessageChunk": 210,
    "Content": 245,
    "SessionConfigSelect": 147,
    "CancelledPermissionOutcome": 255,
    "ElicitationFormMode": 302,
    "AcceptElicitation": 312,
}
# Members that a rule forbids.
FORBIDDEN: Final = {
    ("SessionInfoUpdate", "sessionId"): 218,
    ("SessionInfoUpdate", "cwd"): 218,
    ("SessionInfoUpdate", "additionalDirectories"): 218,
    ("SessionConfigBoolean", "options"): 151,
    ("DeclineElicitation", "content"): 312,
    ("CancelElicitation", "content"): 312,
}
# Members of drafts that were dropped; agents of that time still send them.
_DRAFTS: Final = {
    "models": "a member of a draft that was dropped: models became config options",
    "vars": "a member of a draft that was dropped: environment variables as a login",
}
_SNAKE: Final = re.compile(r"(?<=[a-z0-9])_([a-z])")


def check_fit(frame: DecodedFrame, facts: Facts) -> None:
    """Report everything in a message that its type forbids or does not name."""
    row = frame.row
    if row is None or frame.part not in ("params", "result"):
        return
    kind = row.params if frame.part == "params" else row.result
    if kind is None:
        return
    if frame.fault is not None:
        _report_misfit(frame, facts, kind, frame.fault.path, frame.fault.message)
    elif frame.plain is None and frame.part == "result":
        _report_null(frame, facts, kind)
        return
    for loss in frame.losses:
        _report_misfit(frame, facts, kind, loss.path, loss.why)
    for oddity in oddities(kind, frame.plain):
        _report_oddity(frame, facts, oddity)


def _report_misfit(frame: DecodedFrame, facts: Facts, kind: object, path: str, why: str) -> None:
    owner, member = owner_of(kind, frame.plain, path)
    rule = META if member == "_meta" else RULES.get(f"{owner}.{member}") or RULES.get(owner or _name(kind), ANY_TYPE)
    # Rules 100 and 213 allow a reader to take null for an empty list; the meaning is clear.
    level = "NOTE" if why == "null read as the default" else "SCHEMA"
    facts.report(rule, frame, f"{path}: {why}" if path else why, level)


def _report_null(frame: DecodedFrame, facts: Facts, kind: object) -> None:
    rule = RULES.get(_name(kind), ANY_TYPE)
    # The documentation itself shows null for these two (rules 109 and 279).
    is_shown = frame.method in ("session/load", "fs/write_text_file")
    facts.report(rule, frame, "the result is null; the schema requires an object", "NOTE" if is_shown else "SCHEMA")


def _report_oddity(frame: DecodedFrame, facts: Facts, oddity: Oddity) -> None:
    owner, member, path = oddity.owner, oddity.member, oddity.path
    if oddity.what == "word":
        rule = RULES.get(f"{owner}.{member}") or RULES.get(owner, ANY_TYPE)
        # Where the schema allows custom values, only its prose asks that they begin with `_`.
        level = "lc" if (owner, member) in OWN_WORDS else "SCHEMA"
        facts.report(rule, frame, f"{path}: {oddity.value!r} is not one of the values of this member", level)
    elif oddity.what == "variant":
        rule = VARIANT_RULES.get(owner) or RULES.get(owner, ANY_TYPE)
        facts.report(rule, frame, f"{path}: {oddity.value!r} is not a variant that the schema names", "SCHEMA")
    elif (owner, member) in FORBIDDEN:
        facts.report(FORBIDDEN[owner, member], frame, f"{path}: this member must not be here", "SCHEMA")
    elif member == "modeId" and owner == "CurrentModeUpdate":
        return  # the decoder took it for currentModeId and reported that
    elif _SNAKE.sub(lambda match: match[1].upper(), member) in oddity.names:
        # `session_id` in a type that has `sessionId` is a misspelling, not an extension.
        facts.report(CAMEL_CASE, frame, f"{path}: keys are written in camelCase", "SCHEMA")
    elif member.startswith("_"):
        # No release of the protocol will ever name it, so this is a custom member for certain.
        facts.report(EXTRA_MEMBER, frame, f"{path}: custom members go into _meta", "MUST NOT")
    else:
        facts.report(
            EXTRA_MEMBER, frame, f"{path}: {_DRAFTS.get(member, 'the schema does not name this member')}", "EXTRA"
        )


def _name(kind: object) -> str:
    return kind.__name__ if isinstance(kind, type) else ""

"""The answers to an agent of version 2: permission and forms; it is offered no files and no terminals.

A permission service written for version 1 gets the request in that form; what version 2 adds (a title and a description
of the question itself, a command as the subject) are further members of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.client.requests import RequestHandler, no_permission
from dragoman.schema import CLIENT_METHODS, UNSET, v1, v2
from dragoman.schema.methods import method_tables
from dragoman.state.version2.reading import read_tool_patch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dragoman.client.session import Session
    from dragoman.schema import Method, UnsetType


class PermissionRequest(v1.RequestPermissionRequest, frozen=True):
    """A permission request of version 2, in the form of version 1 with what version 2 adds."""

    title: str = ""
    """The question's own title, which is not the one of the tool call."""
    description: str | None = None
    subject: v2.RequestPermissionSubject | UnsetType | None = UNSET


class Version2Requests(RequestHandler):
    """The dispatcher of the requests of an agent of version 2."""

    _made = 0

    @property
    def methods(self) -> Mapping[str, Method]:
        """The methods of a client in version 2; forms are the same in both versions."""
        return {**method_tables(2).client, "elicitation/create": CLIENT_METHODS["elicitation/create"]}

    async def _permission(self, request: Any, session: Session) -> object:
        subject = request.subject
        if isinstance(subject, v2.ToolCallPermissionSubject):
            session.note_permission(subject.tool_call)
        if not request.options:
            return no_permission()
        return await self._ask(self._read(request, session), session)

    def _read(self, request: v2.RequestPermissionRequest, session: Session) -> PermissionRequest:
        description = request.description or None
        return PermissionRequest(
            request.session_id,
            self._tool_call(request, session),
            [
                v1.PermissionOption(option.option_id, option.name, option.kind, meta=option.meta)
                for option in request.options
            ],
            meta=request.meta,
            title=request.title,
            description=description,
            subject=request.subject,
        )

    def _tool_call(self, request: v2.RequestPermissionRequest, session: Session) -> v1.ToolCallPatch:
        """Return the tool call of the request. What the question says about itself is shown in front of the content."""
        subject = request.subject
        if isinstance(subject, v2.ToolCallPermissionSubject):
            call = read_tool_patch(subject.tool_call)
            known = session.state.tool_calls.get(call.tool_call_id)
            own_title = call.title or (known.title if known else "")
            title = own_title or request.title
            content: list[v1.ToolCallContent] = list(call.content or (known.content if known else ()))
        else:
            self._made += 1
            own_title, title, content = "", request.title, []
            call = v1.ToolCallUpdate(f"permission-{self._made}")
            if isinstance(subject, v2.CommandPermissionSubject):
                raw = {"command": subject.command, "cwd": subject.cwd}
                call = v1.ToolCallUpdate(subject.tool_call_id or call.tool_call_id, kind="execute", raw_input=raw)
        stated = [request.title] if own_title and own_title != request.title else []
        stated += [request.description] if request.description else []
        if stated:
            content.insert(0, v1.Content(v1.TextContent("\n".join(stated))))
        return v1.ToolCallPatch(
            call.tool_call_id,
            name=call.name,
            title=title,
            kind=call.kind,
            status=call.status,
            content=content or UNSET,
            locations=call.locations,
            raw_input=call.raw_input,
            raw_output=call.raw_output,
            meta=call.meta,
        )

"""The two paths of attachments: one takes the bytes of a file, the other gives them back to the same user.

What a browser gets from here is never a page: everything is a download but the four kinds of image whose first bytes
are right, and a policy closes whatever a browser might still make of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from dragoman.host.serving.routes import Route
from dragoman.host.working.uploads import ANY_TYPE, IMAGES, MOST_BYTES, UploadRefused, image_type
from dragoman.transports.remote.answers import JSON, HttpReply, text_answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.host.working.uploads import Uploads
    from dragoman.transports.remote.gate import Entered, Principal

PATH: Final = "/attachment"
_NO_STORE: Final = (b"cache-control", b"no-store")
_CLOSED: Final = (b"content-security-policy", b"sandbox; default-src 'none'")


class UploadPages:
    """The attachments of a host over HTTP."""

    def __init__(self, uploads: Uploads, user_of: Callable[[Principal], str | None]) -> None:
        """Prepare it.

        Args:
            uploads: Where they are kept.
            user_of: Returns the user of a token or device; None if it ended meanwhile.
        """
        self._uploads = uploads
        self._user_of = user_of

    def routes(self) -> list[Route]:
        """Return what the table of the server gets."""
        return [
            Route(b"POST", PATH, self._take, "device", media=None, max_body_bytes=MOST_BYTES),
            Route(b"GET", f"{PATH}/", self._give, "device"),
        ]

    async def _take(self, entered: Entered, body: bytes) -> HttpReply:
        user = self._user_of(entered.principal)
        if user is None or "prompt" not in entered.principal.rights:
            return text_answer(403, "Attachments are for prompts: the right prompt is needed.")
        named = entered.headers.get(b"content-type", b"").decode("latin-1")
        try:
            upload = await self._uploads.put(body, named, user=user, device=entered.principal.name)
        except UploadRefused as refused:
            if refused.is_full:
                return text_answer(507, str(refused))
            if not refused.retry_seconds:
                return text_answer(400, str(refused))
            answer = text_answer(429, str(refused))
            return answer._replace(headers=(*answer.headers, (b"retry-after", b"%d" % refused.retry_seconds)))
        return HttpReply(200, msgspec.json.encode(upload.document()), JSON, (_NO_STORE,))

    async def _give(self, entered: Entered, body: bytes) -> HttpReply:
        user = self._user_of(entered.principal)
        upload = None if user is None else self._uploads.find(entered.path.removeprefix(f"{PATH}/"), user)
        content = None if upload is None else await self._uploads.read(upload)
        if upload is None or content is None:
            return text_answer(404, "There is no such attachment.")
        # Looked at again: the file may have been changed since, and only these bytes are about to be sent.
        is_shown = upload.mime_type in IMAGES and image_type(content) == upload.mime_type
        media = upload.mime_type if is_shown else ANY_TYPE
        headers = (_NO_STORE, _CLOSED, (b"content-disposition", b"inline" if is_shown else b"attachment"))
        return HttpReply(200, content, media.encode(), headers)

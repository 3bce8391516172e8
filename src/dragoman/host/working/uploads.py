"""The attachments of prompts: uploaded once, named by their ids in prompts, filled in for those that need the bytes.

An attachment belongs to the user who uploaded it; for any other user it does not exist. A prompt that names it claims
it for its session: it is then kept as long as that session. One that no prompt has named is gone after an hour. The log
holds the block with empty data and the id, so that a picture is sent to each client at most once.

The bytes are in `ID.bin`, what is known about them in `ID.json`, which is written last: an upload that was cut off does
not exist. `find` and `claim` touch one small file; whatever reads or writes bytes runs in a thread.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import secrets
import threading
import time
from base64 import b64encode
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from dragoman.errors import RequestError
from dragoman.schema import UNSET, v1
from dragoman.workspace.private import make_private_folder, open_private, write_private

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

T = TypeVar("T")
_log = logging.getLogger("dragoman.host")

MOST_BYTES: Final = 16 * 1024 * 1024
"""Of one attachment."""
DAY_BYTES: Final = 256 * 1024 * 1024
"""Of all attachments that one device uploads on a day, in UTC."""
UNUSED_SECONDS: Final = 3600.0
ANY_TYPE: Final = "application/octet-stream"
IMAGES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""The kinds of image that a browser may show as they are; their first bytes are looked at."""
REFERENCE: Final = b'"attachment":'
"""In every block that names an attachment, as the host writes it."""
_DAY_SECONDS: Final = 24 * 3600
_ID: Final = re.compile(r"[0-9a-f]{32}")
_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,63}")
_GONE: Final = {"type": "text", "text": "[an attachment that is no longer kept]"}


class Upload(msgspec.Struct, frozen=True, rename="camel"):
    """What is known about an attachment."""

    id: str
    user: str
    mime_type: str
    bytes: int
    sha256: str
    at: float
    """When it was uploaded, in seconds since 1970."""
    sessions: tuple[str, ...] = ()
    """Those whose prompts name it."""

    def document(self) -> dict[str, Any]:
        """Return what its uploader is answered."""
        return {"id": self.id, "bytes": self.bytes, "mimeType": self.mime_type, "sha256": self.sha256}


class UploadRefused(Exception):
    """An attachment that is not taken; the text says why."""

    def __init__(self, why: str, *, retry_seconds: int = 0, is_full: bool = False) -> None:
        super().__init__(why)
        self.is_full = is_full
        """Whether its user may keep no more."""
        self.retry_seconds = retry_seconds
        """After which it may be taken; 0 if it never is."""


class _Spent(NamedTuple):
    day: int
    bytes: int


class Uploads:
    """The attachments of one host."""

    def __init__(self, folder: Path | None, clock: Callable[[], float] = time.time) -> None:
        """Prepare it; nothing is read or made before the first upload.

        Args:
            folder: That of the log; None for a host that keeps nothing on disk, and takes no attachments.
            clock: The time, in seconds since 1970.
        """
        self._folder = None if folder is None else folder / "attachments"
        self._clock = clock
        self._spent: dict[str, _Spent] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._last_at = 0.0
        self.admit: Callable[[str, int], Awaitable[None]] | None = None
        """Awaited with the user and the size of each, before it is kept. Raises: UploadRefused."""
        self._kept: dict[str, int] = {}
        # A thread that removes what was not used, and a prompt that claims it, look at one attachment at a time.
        self._lock = threading.Lock()
        self._counting = threading.Lock()

    # Uploading

    async def put(self, content: bytes, mime_type: str, *, user: str, device: str) -> Upload:
        """Keep an attachment.

        Args:
            content: Its bytes.
            mime_type: What its sender calls it; the first bytes of an image decide.
            user: Whose it is.
            device: On whose account of the day it goes.

        Raises:
            UploadRefused: it is empty or too large, or the device has uploaded too much today.
            OSError: it cannot be written.
        """
        if self._folder is None:
            raise UploadRefused("This host keeps nothing on disk, and takes no attachments.")
        if not content:
            raise UploadRefused("The file is empty.")
        if len(content) > MOST_BYTES:
            raise UploadRefused(f"An attachment may have {_mebibytes(MOST_BYTES)} at most.")
        if self.admit is not None:
            await self.admit(user, len(content))
        self._take(device, len(content))
        self._count(user, len(content))  # before it is written: two at the same time may not pass together
        upload = Upload(
            id=secrets.token_hex(16),
            user=user,
            mime_type=found_type(content, mime_type),
            bytes=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
            at=self._clock(),
        )
        try:
            await asyncio.to_thread(self._write, upload, content)
        except BaseException:
            self._count(user, -len(content))
            raise
        self._sweep_later()
        return upload

    def kept_bytes(self, user: str) -> int:
        """Return how much a user keeps here, once it was measured."""
        return self._kept.get(user, 0)

    async def measure(self) -> None:
        """Measure what users keep here; `kept_bytes` counts from then on."""
        for upload in await asyncio.to_thread(lambda: [*map(self._known, self._ids())]):
            if upload is not None:
                self._count(upload.user, upload.bytes)

    def _count(self, user: str, size: int) -> None:
        with self._counting:
            self._kept[user] = max(0, self._kept.get(user, 0) + size)

    def _take(self, device: str, size: int) -> None:
        """Count bytes before they are written: two uploads at the same time may not pass together."""
        now = self._clock()
        today = int(now // _DAY_SECONDS)
        if self._spent is None:
            self._spent = self._read_spent()
        spent = self._spent.get(device)
        before = spent.bytes if spent is not None and spent.day == today else 0
        if before + size > DAY_BYTES:
            seconds = int((today + 1) * _DAY_SECONDS - now) + 1
            raise UploadRefused(f"A device may upload {_mebibytes(DAY_BYTES)} a day.", retry_seconds=seconds)
        self._spent = {name: found for name, found in self._spent.items() if found.day == today}
        self._spent[device] = _Spent(today, before + size)

    def _read_spent(self) -> dict[str, _Spent]:
        with suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode(self._read("spent.json"), type=dict[str, _Spent])
        return {}

    def _write(self, upload: Upload, content: bytes) -> None:
        assert self._folder is not None
        make_private_folder(self._folder)
        write_private(self._folder / "spent.json", msgspec.json.encode(self._spent), is_synced=False)
        write_private(self._folder / f"{upload.id}.bin", content, is_synced=True)
        self._save(upload)
        self._remove_unused()

    def _save(self, upload: Upload) -> None:
        assert self._folder is not None
        write_private(self._folder / f"{upload.id}.json", msgspec.json.encode(upload), is_synced=True)

    # Reading

    def find(self, id: object, user: str) -> Upload | None:
        """Return an attachment; None if there is none, if it has expired, or if it is another user's."""
        if self._folder is None or not isinstance(id, str) or not _ID.fullmatch(id):
            return None
        upload = self._known(id)
        return upload if upload is not None and upload.user == user and not self._is_over(upload) else None

    async def read(self, upload: Upload) -> bytes | None:
        """Return the bytes of an attachment; None if they are gone."""
        return await asyncio.to_thread(self._content, upload)

    def _content(self, upload: Upload) -> bytes | None:
        try:
            return self._read(f"{upload.id}.bin")
        except OSError:
            return None

    def _read(self, name: str) -> bytes:
        assert self._folder is not None
        with os.fdopen(open_private(self._folder / name, os.O_RDONLY), "rb") as file:
            return file.read()

    # In prompts

    def claim(self, blocks: Sequence[v1.ContentBlock], user: str, session: str) -> list[v1.ContentBlock]:
        """Return the blocks of a prompt that is accepted, with the true types of its attachments, which are kept.

        Raises:
            RequestError: a block names an attachment that does not exist for this user, or does not fit it.
        """
        if not any(reference_of(getattr(block, "meta", None)) for block in blocks):
            return list(blocks)
        with self._lock:
            return self._claim(blocks, user, session)

    def _claim(self, blocks: Sequence[v1.ContentBlock], user: str, session: str) -> list[v1.ContentBlock]:
        claimed: list[v1.ContentBlock] = []
        found: list[Upload] = []
        for place, block in enumerate(blocks):
            id = reference_of(getattr(block, "meta", None))
            if id is None:
                claimed.append(block)
                continue
            path = f"$.prompt[{place}]"
            upload = self.find(id, user)
            if upload is None:
                raise RequestError.invalid_params("there is no such attachment", path=path)
            claimed.append(_typed(block, upload, path))
            found.append(upload)
        for upload in found:  # all of them, or none
            if session not in upload.sessions:
                self._save(replace(upload, sessions=(*upload.sessions, session)))
        return claimed

    async def fill_blocks(self, blocks: Sequence[v1.ContentBlock], user: str) -> list[v1.ContentBlock]:
        """Return the blocks of a prompt as the agent is sent them. Raises: RequestError if an attachment is gone."""
        if not any(reference_of(getattr(block, "meta", None)) for block in blocks):
            return list(blocks)

        def fill() -> list[v1.ContentBlock]:
            return [self._filled_block(block, user) for block in blocks]

        return await asyncio.to_thread(fill)

    async def fill_update(self, update: bytes, user: str) -> bytes:
        """Return an update that shows a block of a prompt, for a client that takes no references."""

        def fill() -> bytes:
            found = msgspec.json.decode(update)
            content = found.get("content") if isinstance(found, dict) else None
            if not isinstance(content, dict) or reference_of(content.get("_meta")) is None:
                return update
            return msgspec.json.encode({**found, "content": self._filled(content, user)})

        return await asyncio.to_thread(fill)

    async def fill_prompt(self, body: bytes, user: str) -> bytes:
        """Return the event of a prompt, for a client that takes no references."""

        def fill() -> bytes:
            found = msgspec.json.decode(body)
            prompt = [self._filled(block, user) if isinstance(block, dict) else block for block in found["prompt"]]
            return msgspec.json.encode({**found, "prompt": prompt})

        return await asyncio.to_thread(fill)

    def _filled_block(self, block: v1.ContentBlock, user: str) -> v1.ContentBlock:
        id = reference_of(getattr(block, "meta", None))
        if id is None:
            return block
        upload = self.find(id, user)
        content = None if upload is None else self._content(upload)
        if content is None:
            raise RequestError(-32603, "an attachment of this prompt is no longer kept", {"reason": "attachment"})
        meta = without_reference(getattr(block, "meta", None)) or UNSET
        if isinstance(block, v1.ImageContent | v1.AudioContent):
            return replace(block, data=b64encode(content).decode(), meta=meta)
        assert isinstance(block, v1.EmbeddedResource)
        resource = block.resource
        if isinstance(resource, v1.TextResourceContents):
            return replace(block, resource=replace(resource, text=content.decode("utf-8", "replace")), meta=meta)
        return replace(block, resource=replace(resource, blob=b64encode(content).decode()), meta=meta)

    def _filled(self, block: dict[str, Any], user: str) -> dict[str, Any]:
        id = reference_of(block.get("_meta"))
        if id is None:
            return block
        upload = self.find(id, user)
        content = None if upload is None else self._content(upload)
        if content is None:
            return _GONE
        filled = {name: value for name, value in block.items() if name != "_meta"}
        meta = without_reference(block.get("_meta"))
        if meta:
            filled["_meta"] = meta
        resource = block.get("resource")
        if not isinstance(resource, dict):
            return {**filled, "data": b64encode(content).decode()}
        is_text = "text" in resource
        member = {"text": content.decode("utf-8", "replace")} if is_text else {"blob": b64encode(content).decode()}
        return {**filled, "resource": {**resource, **member}}

    # The end

    async def forget_session(self, session: str) -> None:
        """Remove the attachments that only a deleted session has used."""
        await asyncio.to_thread(self._forget, session)

    def close(self) -> None:
        """Stop the clock of unused attachments; the next host goes on with it."""
        if self._timer is not None:
            self._timer.cancel()

    def _is_over(self, upload: Upload) -> bool:
        return not upload.sessions and self._clock() - upload.at > UNUSED_SECONDS

    def _sweep_later(self) -> None:
        self._last_at = self._clock()
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(UNUSED_SECONDS + 1, self._sweep)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        left = self._last_at + UNUSED_SECONDS - self._clock()
        self._timer = loop.call_later(left + 1, self._sweep) if left > 0 else None
        _ = loop.run_in_executor(None, self._remove_unused)

    def _ids(self) -> list[str]:
        try:
            names = [] if self._folder is None else os.listdir(self._folder)
        except OSError:  # nothing was ever uploaded, or it cannot be read; what is too old is not found in any case
            return []
        return [id for name in names if name.endswith(".json") and _ID.fullmatch(id := name.removesuffix(".json"))]

    def _known(self, id: str) -> Upload | None:
        try:
            return msgspec.json.decode(self._read(f"{id}.json"), type=Upload)
        except (OSError, msgspec.MsgspecError):
            return None

    def _remove_unused(self) -> None:
        for id in self._ids():
            with self._lock:
                upload = self._known(id)
                if upload is not None and self._is_over(upload):
                    self._remove(upload)

    def _forget(self, session: str) -> None:
        for id in self._ids():
            with self._lock:
                upload = self._known(id)
                if upload is None or session not in upload.sessions:
                    continue
                rest = tuple(name for name in upload.sessions if name != session)
                if rest:
                    self._save(replace(upload, sessions=rest))
                else:
                    self._remove(upload)

    def _remove(self, upload: Upload) -> None:
        assert self._folder is not None
        for ending in ("json", "bin"):  # in this order: what has no description does not exist
            with suppress(FileNotFoundError):
                os.unlink(self._folder / f"{upload.id}.{ending}")
        self._count(upload.user, -upload.bytes)


def found_type(content: bytes, named: str) -> str:
    """Return the media type of bytes: what their sender calls it, unless the first bytes of an image say otherwise."""
    wanted = named.partition(";")[0].strip().lower()
    if not _TYPE.fullmatch(wanted):
        return ANY_TYPE
    if not wanted.startswith("image/"):
        return wanted
    shown = image_type(content)
    return shown or (ANY_TYPE if wanted in IMAGES else wanted)


def image_type(content: bytes) -> str | None:
    """Return the kind of image that bytes begin as; None for anything but PNG, JPEG, GIF and WebP."""
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if content.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if content.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if content[:4] == b"RIFF" and content[8:12] == b"WEBP" else None


def _mebibytes(size: int) -> str:
    return f"{size // (1024 * 1024)} MiB"


def reference_of(meta: object) -> str | None:
    """Return the id of the attachment that the `_meta` of a block names; None if it names none."""
    own = meta.get("dragoman") if isinstance(meta, dict) else None
    found = own.get("attachment") if isinstance(own, dict) else None
    return None if found is None else str(found)


def without_reference(meta: Any) -> dict[str, Any]:
    """Return the `_meta` of a block without the name of its attachment."""
    own = {name: value for name, value in meta["dragoman"].items() if name != "attachment"}
    rest = {name: value for name, value in meta.items() if name != "dragoman"}
    return {**rest, "dragoman": own} if own else rest


def _typed(block: v1.ContentBlock, upload: Upload, path: str) -> v1.ContentBlock:
    """Return a block with the type that its attachment has; its data must be empty, since others see them."""
    if isinstance(block, v1.ImageContent | v1.AudioContent):
        kind = "image" if isinstance(block, v1.ImageContent) else "audio"
        if block.data:
            raise RequestError.invalid_params("a block that names an attachment has empty data", path=path)
        if not upload.mime_type.startswith(f"{kind}/"):
            raise RequestError.invalid_params(f"the attachment is not {kind}: {upload.mime_type}", path=path)
        return replace(block, mime_type=upload.mime_type)
    if not isinstance(block, v1.EmbeddedResource):
        raise RequestError.invalid_params("only image, audio and resource blocks name an attachment", path=path)
    resource = block.resource
    if (resource.text if isinstance(resource, v1.TextResourceContents) else resource.blob) != "":
        raise RequestError.invalid_params("a block that names an attachment has an empty text or blob", path=path)
    return block

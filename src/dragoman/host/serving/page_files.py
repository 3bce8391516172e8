"""The files of the web page: exactly those of the table that was made when the page was built.

They are read once, when the server starts, and compared with their hashes: one that differs is not served. No path of a
request ever becomes a path of the disk. The page has no content of sessions, so that it needs no token.
"""

from __future__ import annotations

import gzip
import hashlib
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from dragoman.host.serving.routes import Route
from dragoman.transports.remote.answers import HttpReply

if TYPE_CHECKING:
    from dragoman.transports.remote.answers import PageReply
    from dragoman.transports.remote.gate import Entered

_log = logging.getLogger("dragoman.host")
FOLDER: Final = Path(__file__).parent / "page"
POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
    b"media-src 'self' blob:; manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; "
    b"frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types dragoman dompurify"
)
"""The content security policy of every HTML answer."""
MISSING: Final = (
    "This installation of dragoman has no web page: the package was built without Node.js. Install a released wheel, "
    "or build the page in a clone with `make run` (it needs Node.js 20) and install that."
)
_CACHED: Final = {"immutable": b"public, max-age=31536000, immutable", "no-cache": b"no-cache"}
_PACKED: Final = ("text/", "application/javascript", "application/json", "application/manifest+json", "image/svg+xml")


class _Entry(msgspec.Struct):
    file: str
    type: str
    sha256: str
    cache: str = "no-store"


class _Table(msgspec.Struct):
    version: str
    files: dict[str, _Entry]


class _Served(NamedTuple):
    body: bytes
    packed: bytes | None
    """The same, compressed; None where that saves nothing."""
    content_type: bytes
    headers: tuple[tuple[bytes, bytes], ...]


class PageFiles:
    """The page as it is served; empty if this installation has none."""

    def __init__(self, folder: Path = FOLDER) -> None:
        """Read the files and check them.

        Args:
            folder: Where `table.json` is.
        """
        self.version: str | None = None
        self.problems: list[str] = []
        """What is wrong with files that are not served, as sentences."""
        self._files: dict[str, _Served] = {}
        try:
            table = msgspec.json.decode((folder / "table.json").read_bytes(), type=_Table)
        except FileNotFoundError:
            return
        except (OSError, msgspec.DecodeError) as error:
            self._refuse(f"the table of the web page cannot be read ({error}): {folder / 'table.json'}")
            return
        self.version = table.version
        for path, entry in table.files.items():
            self._read(folder, path, entry)

    @property
    def is_complete(self) -> bool:
        """Whether there is a page, and every file of it is the one that was built."""
        return "/" in self._files and not self.problems

    @property
    def routes(self) -> list[Route]:
        """The routes of the page; without one, an answer that says so."""
        paths = ("/", *(path for path in self._files if path != "/"))
        return [Route(b"GET", path, self._answer, "page") for path in paths]

    async def _answer(self, entered: Entered, body: bytes) -> PageReply:
        found = self._files.get(entered.path)
        if found is None:
            why = " ".join(self.problems) or MISSING
            return HttpReply(503, f"{why}\n".encode(), headers=((b"cache-control", b"no-store"),))
        accepted = entered.headers.get(b"accept-encoding", b"").lower()
        if found.packed is not None and b"gzip" in accepted:
            more = (*found.headers, (b"content-encoding", b"gzip"))
            return HttpReply(200, found.packed, found.content_type, more)
        return HttpReply(200, found.body, found.content_type, found.headers)

    def _read(self, folder: Path, path: str, entry: _Entry) -> None:
        file = folder / entry.file
        if not file.resolve().is_relative_to(folder.resolve()):
            self._refuse(f"the table of the web page names a file outside of its folder: {entry.file}")
            return
        try:
            body = file.read_bytes()
        except OSError as error:
            self._refuse(f"a file of the web page cannot be read ({error.strerror}): {file}")
            return
        if hashlib.sha256(body).hexdigest() != entry.sha256:
            self._refuse(f"a file of the web page is not the one that was built, and is not served: {file}")
            return
        packed = gzip.compress(body, mtime=0) if entry.type.startswith(_PACKED) else body
        headers = [(b"cache-control", _CACHED.get(entry.cache, b"no-store"))]
        if entry.type.startswith("text/html"):
            headers.append((b"content-security-policy", POLICY))
        if len(packed) < len(body):
            headers.append((b"vary", b"accept-encoding"))
        self._files[path] = _Served(
            body, packed if len(packed) < len(body) else None, entry.type.encode("ascii"), tuple(headers)
        )

    def _refuse(self, why: str) -> None:
        self.problems.append(why)
        _log.error("%s", why)

"""The conversation alone in a browser: built with a fake app, served with the page's own policy."""

from __future__ import annotations

import mimetypes
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

from tests import machine

WEB: Final = Path(__file__).parents[2] / "web"
# Section 11 of the page's design, word for word.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
    "media-src 'self' blob:; manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types dragoman dompurify"
)


def why_not() -> str:
    """Return why the page cannot be built and shown here; empty if it can."""
    if machine.program("node") is None or not (WEB / "node_modules" / "esbuild").is_dir():
        return "needs Node and the page's packages (npm ci in web/)"
    return "" if machine.program("chromium") is not None else "needs Chromium"


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Build the conversation into a folder and serve it on loopback; yield its address."""
    node = machine.program("node")
    assert node is not None
    built = subprocess.run(
        [node, WEB / "tests" / "alone.mjs", folder], capture_output=True, text=True, timeout=90, check=False
    )
    assert built.returncode == 0, built.stderr

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.partition("?")[0].lstrip("/") or "index.html"
            file = folder / name
            if "/" in name or not file.is_file():
                self.send_error(404)
                return
            found = file.read_bytes()
            self.send_response(200)
            self.send_header("Content-Type", mimetypes.guess_type(name)[0] or "application/octet-stream")
            self.send_header("Content-Length", str(len(found)))
            self.send_header("Content-Security-Policy", POLICY)
            self.end_headers()
            self.wfile.write(found)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing about requests."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

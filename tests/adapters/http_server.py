"""An HTTP server on loopback that answers with prepared responses, and records the requests."""

import json
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self


class Prepared(NamedTuple):
    """One response. `breaks`: the connection is cut after the body, which has no end then."""

    body: bytes = b""
    status: int = 200
    media_type: str = "text/event-stream"
    breaks: bool = False
    hangs: bool = False


class Received(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: Any


def sse(*events: Any, done: bool = True) -> bytes:
    """Events as the body of a response: JSON objects, or lines as they are."""
    lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
    return "".join(f"data: {line}\n\n" for line in [*lines, *(["[DONE]"] if done else [])]).encode()


class PreparedServer:
    """Serves on a port of its own. Responses are used in order; a function decides by the request."""

    def __init__(self, *responses: Prepared | Callable[[Received], Prepared]) -> None:
        self._responses = list(responses)
        self.requests: list[Received] = []
        self.released = threading.Event()
        self.hung_up = threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # otherwise each small write waits 40 ms for an acknowledgement

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def _serve(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                text = self.rfile.read(length)
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Received(self.command, self.path, headers, json.loads(text) if text else None)
                owner.requests.append(request)
                owner._answer(self, request)

            do_GET = do_POST = do_DELETE = _serve  # noqa: N815  # the names that the base class looks for

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()

    def bodies(self) -> Sequence[Any]:
        """The bodies of the POST requests."""
        return [request.body for request in self.requests if request.method == "POST"]

    def _answer(self, handler: BaseHTTPRequestHandler, request: Received) -> None:
        chosen = self._responses.pop(0) if len(self._responses) > 1 else self._responses[0]
        response = chosen(request) if callable(chosen) else chosen
        handler.send_response(response.status)
        handler.send_header("content-type", response.media_type)
        if response.breaks or response.hangs:
            handler.send_header("transfer-encoding", "chunked")
            handler.end_headers()
            handler.wfile.write(b"%x\r\n%b\r\n" % (len(response.body), response.body))
            handler.wfile.flush()
            if response.hangs:
                self._hang(handler)
            handler.close_connection = True
            return
        handler.send_header("content-length", str(len(response.body)))
        handler.end_headers()
        handler.wfile.write(response.body)

    def _hang(self, handler: BaseHTTPRequestHandler) -> None:
        """Send nothing until the client is gone or the test is over."""
        handler.connection.settimeout(0.05)
        while not self.released.is_set():
            try:
                if not handler.connection.recv(1):
                    self.hung_up.set()
                    return
            except TimeoutError:
                continue
            except OSError:
                self.hung_up.set()
                return

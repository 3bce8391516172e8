"""A model provider on the loopback interface, in Anthropic's wire form: ``python -m benchmarks.provider``.

It prints its port, then a line for every request that it holds, and goes on when a line arrives on stdin. What it
answers is written in the last prompt of the conversation:

    @@hold 3@@      report the request, wait for a line, answer with 3 words
    @@words 20000@@ answer with so many words, each an event of its own
    @@steps 20@@    make one call of the tool `read` in each of so many steps, then answer
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_WANTED = re.compile(r"@@(hold|words|steps) (\d+)@@")
_EVENTS_PER_WRITE = 50


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Stdout is for the client of the benchmark."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        wanted, count, results = _read(body["messages"])
        if wanted == "hold":
            print("held", flush=True)
            sys.stdin.readline()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        if wanted == "steps" and results < count:
            events = _call(len(body["messages"]))
        else:
            events = _words(count if wanted != "steps" else 1)
        self._send(events)

    def _send(self, events: Iterator[dict[str, Any]]) -> None:
        lines: list[str] = []
        for event in events:
            lines.append(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n")
            if len(lines) == _EVENTS_PER_WRITE:
                self._write(lines)
        self._write(lines)
        self.wfile.write(b"0\r\n\r\n")

    def _write(self, lines: list[str]) -> None:
        if lines:
            data = "".join(lines).encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            lines.clear()


def _read(messages: list[dict[str, Any]]) -> tuple[str, int, int]:
    """Return what the last prompt wants, and how many results of tools came since."""
    results = 0
    for message in reversed(messages):
        for block in reversed(message["content"]):
            if block["type"] == "tool_result":
                results += 1
            elif block["type"] == "text" and message["role"] == "user":
                found = _WANTED.search(block["text"])
                if found is not None:
                    return found[1], int(found[2]), results
    return "words", 1, results


def _words(count: int) -> Iterator[dict[str, Any]]:
    yield _start()
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    for number in range(count):
        delta = {"type": "text_delta", "text": f"word {number} "}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield from _end("end_turn")


def _call(id: int) -> Iterator[dict[str, Any]]:
    yield _start()
    block = {"type": "tool_use", "id": f"toolu_{id}", "name": "read", "input": {}}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    delta = {"type": "input_json_delta", "partial_json": '{"path": "file.txt"}'}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield from _end("tool_use")


def _start() -> dict[str, Any]:
    usage = {"input_tokens": 100, "output_tokens": 1}
    return {"type": "message_start", "message": {"model": "claude-sonnet-5-5", "usage": usage}}


def _end(reason: str) -> Iterator[dict[str, Any]]:
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 20}}
    yield {"type": "message_stop"}


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()

"""A development server: `serve` runs it, `stop` stops it."""

import hashlib
import os
import sys
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

PORT = Path("server.port")
LOG = Path("server.log")


def note(text):
    with LOG.open("a") as log:
        log.write(text + "\n")


class Handler(BaseHTTPRequestHandler):
    """Answers `/sign?TEXT` with a signature that only a running server can give."""

    def do_GET(self):
        path, _, text = self.path.partition("?")
        body = hashlib.sha256(f"{self.server.started}{text}".encode()).hexdigest() if path == "/sign" else "bye"
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body.encode())
        note(f"{path} {text} {body}")
        if path == "/stop":
            self.server.is_stopped = True

    def log_message(self, *words):
        pass


def serve():
    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.is_stopped = False
    server.started = f"{time.time()}-{os.getpid()}"
    PORT.write_text(str(server.server_address[1]))
    note("started")
    print("serving", flush=True)
    while not server.is_stopped:
        server.handle_request()
    PORT.unlink()
    note("stopped")


def stop():
    urllib.request.urlopen(f"http://127.0.0.1:{PORT.read_text()}/stop").read()
    for _ in range(100):
        if not PORT.exists():
            break
        time.sleep(0.05)


if __name__ == "__main__":
    {"serve": serve, "stop": stop}[sys.argv[1]]()

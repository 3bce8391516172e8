"""`python -m tests.interop.model_server`: the server by itself, to try an agent by hand."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from pathlib import Path

from tests.interop.model_server.server import ModelServer


def main() -> None:
    parser = argparse.ArgumentParser(description="A scripted model on the loopback interface.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one; the address is printed")
    parser.add_argument("--log", type=Path, help="a JSON line for each request, when it is over")
    given = parser.parse_args()
    server = ModelServer(port=given.port, log=given.log)
    sys.stdout.write(f"{server.url}\n")
    sys.stdout.flush()
    with suppress(KeyboardInterrupt):
        server.serve_forever()


main()

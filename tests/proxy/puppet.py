"""An agent that does what its prompt says: the prompt's text is JSON with frames to send and how many to wait for.

Frames may name the session as "SESSION". The frames that it received are in `_meta` of its answer. Needs nothing but
Python, so it starts quickly.
"""

import json
import os
import signal
import sys

signal.signal(signal.SIGTERM, signal.SIG_IGN)


def send(frame: object) -> None:
    sys.stdout.write(json.dumps(frame) + "\n")
    sys.stdout.flush()


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        method = asked.get("method")
        if "id" not in asked or method is None:
            continue
        result: dict[str, object] = {}
        if method == "initialize":
            info = {"name": "puppet", "version": str(os.getpid())}
            result = {"protocolVersion": 1, "agentInfo": info, "_meta": {"asked": asked["params"]}}
        elif method == "session/new":
            result = {"sessionId": "SESSION", "_meta": {"asked": asked["params"], "env": dict(os.environ)}}
        elif method == "session/prompt":
            steps = json.loads(asked["params"]["prompt"][-1]["text"])
            for frame in steps.get("send", []):
                if isinstance(frame, str):
                    sys.stdout.write(frame + "\n")
                    sys.stdout.flush()
                else:
                    send({"jsonrpc": "2.0", **frame})
            seen = [json.loads(sys.stdin.readline()) for _ in range(steps.get("wait", 0))]
            result = {"stopReason": "end_turn", "_meta": {"seen": seen}}
        send({"jsonrpc": "2.0", "id": asked["id"], "result": result})


main()

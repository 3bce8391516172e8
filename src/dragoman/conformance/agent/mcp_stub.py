"""A stdio MCP server that offers nothing and notes every method it receives in a file.

`python -m dragoman.conformance.agent.mcp_stub FILE` answers initialize, ping and empty lists, and appends each method
it receives to FILE. It needs nothing but the standard library, so that any agent can start it quickly.
"""

import json
import sys

_RESULTS: dict[str, object] = {
    "tools/list": {"tools": []},
    "prompts/list": {"prompts": []},
    "resources/list": {"resources": []},
    "resources/templates/list": {"resourceTemplates": []},
    "ping": {},
}


def main(mark: str) -> None:
    for line in sys.stdin:
        if not line.strip():
            continue
        message = json.loads(line)
        method = message.get("method")
        if method is None:
            continue
        with open(mark, "a") as file:
            file.write(f"{method}\n")
        if "id" not in message:
            continue
        answer: dict[str, object] = {"jsonrpc": "2.0", "id": message["id"]}
        if method == "initialize":
            version = message.get("params", {}).get("protocolVersion", "2025-06-18")
            server = {"name": "dragoman-check", "version": "1"}
            answer["result"] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
        elif method in _RESULTS:
            answer["result"] = _RESULTS[method]
        else:
            answer["error"] = {"code": -32601, "message": "Method not found"}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])

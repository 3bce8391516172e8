"""An MCP server on stdin and stdout, standard library only. It logs every call of a tool."""

import json
import sys
from pathlib import Path

LOG = Path(sys.argv[1])
NAME = "tickets"
NUMBER = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
TOOLS = [
    {"name": "get_ticket", "description": "Show a ticket.", "inputSchema": NUMBER, "annotations": {"readOnlyHint": True}},
    {"name": "list_tickets", "description": "List all tickets.", "inputSchema": {"type": "object", "properties": {}}},
    {"name": "delete_ticket", "description": "Delete a ticket forever.", "inputSchema": NUMBER},
]
TICKETS = {
    41: "The logo is blurred.",
    42: (
        "slugify() drops digits, so 'Top 10' and 'Top' collide. Digits have to stay. Several characters that are not letters or "
        "digits in a row give one dash, and a slug neither begins nor ends with one. The result has at most 40 characters, and is "
        "not cut inside of a word unless the first word alone is longer."
    ),
}


def call(name, arguments):
    if name == "list_tickets":
        return "\n".join(f"{number}: {text[:20]}..." for number, text in TICKETS.items())
    number = arguments.get("number")
    if number not in TICKETS:
        raise LookupError(f"there is no ticket {number}")
    if name == "delete_ticket":
        return f"ticket {number} is deleted"
    return TICKETS[number]



def answer(message):
    method, params = message.get("method"), message.get("params") or {}
    if method == "initialize":
        version = params.get("protocolVersion", "2025-06-18")
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": NAME, "version": "1"}}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        with LOG.open("a") as log:
            log.write(json.dumps({"tool": params["name"], "arguments": params.get("arguments")}) + "\n")
        try:
            return {"content": [{"type": "text", "text": call(params["name"], params.get("arguments") or {})}]}
        except LookupError as error:
            return {"content": [{"type": "text", "text": str(error)}], "isError": True}
    return {}


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request and "method" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": answer(request)}), flush=True)

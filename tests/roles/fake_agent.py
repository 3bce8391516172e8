"""An agent of raw bytes: sends a prepared case in the middle of a turn and reports what came back.

Started by test_bad_input.py with the file of the cases; a prompt's text is the number of the case.
"""

import json
import sys


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        cases = [case.encode("latin-1") for case in json.load(file)]
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer

    def send(message: object) -> None:
        stdout.write(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n")
        stdout.flush()

    def say(text: str) -> None:
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
        send({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}})

    for line in stdin:
        message = json.loads(line)
        if message.get("method") == "initialize":
            send({"jsonrpc": "2.0", "id": message["id"], "result": {"protocolVersion": 1}})
        elif message.get("method") == "session/new":
            send({"jsonrpc": "2.0", "id": message["id"], "result": {"sessionId": "s"}})
        elif message.get("method") == "session/prompt":
            say("be")
            send(cases[int(message["params"]["prompt"][0]["text"])])
            say("fore")
            send({"jsonrpc": "2.0", "id": "probe", "method": "_no/such", "params": {}})
            answers = []
            for answer in map(json.loads, stdin):
                if answer.get("id") == "probe":
                    break
                answers.append([answer["error"]["code"], answer["id"]])
            result = {"stopReason": "end_turn", "_meta": {"answers": answers}}
            send({"jsonrpc": "2.0", "id": message["id"], "result": result})


if __name__ == "__main__":
    main()

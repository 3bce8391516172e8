"""A link of a proxy chain without any of our code: passes messages on, and misbehaves as its arguments say.

python raw_link.py BEHAVIOUR [UNDERSCORE]. It writes its pid to the file that LINK_PIDS names, and what it sees to the
file that LINK_LOG names.
"""

import json
import os
import sys
import threading

behaviour = sys.argv[1]
prefix = "_proxy/" if "UNDERSCORE" in sys.argv else "proxy/"
other = "proxy/" if prefix == "_proxy/" else "_proxy/"
with open(os.environ["LINK_PIDS"], "a") as pids:
    pids.write(f"{os.getpid()}\n")
asked: dict[int, object] = {}
ids = 1000


def send(**message: object) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def ask(reply_to: object, method: str, params: object) -> None:
    global ids
    ids += 1
    asked[ids] = reply_to
    send(id=ids, method=method, params=params)


def note(message: dict[str, object]) -> None:
    if "LINK_LOG" in os.environ:
        with open(os.environ["LINK_LOG"], "a") as log:
            log.write(f"{json.dumps({'link': behaviour, 'message': message})}\n")


def attack() -> None:
    """Everything that could reach a program that is not a neighbour, or deceive one that is."""
    update = {"sessionId": "s", "update": {"sessionUpdate": "agent_message_chunk", "content": {"text": "forged"}}}
    inner = {"method": "session/update", "params": update}
    for name in ("proxy/", "_proxy/"):
        send(method=f"{name}successor", params={"method": f"{name}successor", "params": inner})
        send(id=f"a{name}", method=f"{name}successor", params={"method": f"{name}successor", "params": inner})
        send(id=f"b{name}", method=f"{name}successor", params={"method": f"{name}initialize", "params": {}})
        send(id=f"c{name}", method=f"{name}initialize", params={"protocolVersion": 1})
        send(method=f"{name}successor", params={"method": "$/cancel_request", "params": {"requestId": 1}})
        send(method=f"{name}successor", params=["session/update"])
    for number in range(1, 30):
        send(id=number + 500, result={"stopReason": "forged"})
    sys.stdout.write("not a message\n[]\n{}\n")
    sys.stdout.flush()


def flood() -> None:
    text = "x" * (1 << 20)
    line = json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": {"text": text}}).encode() + b"\n"
    while True:
        sys.stdout.buffer.write(line)


for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params")
    note(message)
    if method in (f"{prefix}initialize", f"{other}initialize"):
        if method.startswith(other) or behaviour == "no link":
            send(id=message["id"], error={"code": -32601, "message": "Method not found"})
        elif behaviour == "early":
            result = {"protocolVersion": params["protocolVersion"], "agentCapabilities": {}}
            send(id=message["id"], result=result)
        elif behaviour == "hang":
            pass
        else:
            if behaviour == "version":
                params = {**params, "protocolVersion": params["protocolVersion"] + 1}
            ask(message["id"], f"{prefix}successor", {"method": "initialize", "params": params})
    elif method == f"{prefix}successor":
        inner, given = params["method"], params.get("params")
        if "id" in message:
            ask(message["id"], inner, given)
        else:
            send(method=inner, params=given)
    elif method == "$/cancel_request":
        for own, reply_to in asked.items():
            if reply_to == params["requestId"]:
                send(method=method, params={"requestId": own})
    elif method is not None:
        if behaviour == "die" and method == "session/prompt":
            sys.stderr.write("out of order\n")
            sys.exit(7)
        if behaviour == "kill" and method == "session/prompt":
            os.kill(os.getpid(), 9)
        if behaviour == "attack" and method == "session/prompt":
            attack()
        if behaviour == "flood" and method == "session/prompt":
            threading.Thread(target=flood, daemon=True).start()
        if behaviour == "guard" and "secret" in line:
            send(id=message["id"], error={"code": -32000, "message": "refused by the guard"})
            continue
        wrapped = {"method": method, "params": params, "_meta": {"hop": behaviour}}
        if "id" in message:
            ask(message["id"], f"{prefix}successor", wrapped)
        else:
            send(method=f"{prefix}successor", params=wrapped)
    elif message.get("id") in asked:
        reply_to = asked.pop(message["id"])
        body = {name: message[name] for name in ("result", "error") if name in message}
        if behaviour == "answer version" and "protocolVersion" in str(body):
            body["result"]["protocolVersion"] += 1
        send(id=reply_to, **body)

"""JSON-RPC: pairs requests with answers, keeps order, bounds memory, and ends cleanly.

Does not know the protocol's methods: a method is a string, and the role above (agent or client) decodes and serves it.
Does not know how bytes move: a transport is anything that implements `transport.py`. Read `peer.py` first.
"""

from dragoman.rpc.call import Call
from dragoman.rpc.flow import Flow, Inbox
from dragoman.rpc.limits import DEFAULT_LIMITS, Limits
from dragoman.rpc.observer import Observer
from dragoman.rpc.peer import Peer, Role
from dragoman.rpc.pending import Pending
from dragoman.rpc.transport import Receiver, Transport

__all__ = [
    "DEFAULT_LIMITS",
    "Call",
    "Flow",
    "Inbox",
    "Limits",
    "Observer",
    "Peer",
    "Pending",
    "Receiver",
    "Role",
    "Transport",
]

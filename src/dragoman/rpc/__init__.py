"""Pairs requests with answers, in order, and ends cleanly.

Knows nothing of ACP: methods are strings, a role above decodes and serves them. Read `peer.py` first.
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

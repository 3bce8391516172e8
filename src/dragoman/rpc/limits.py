"""The numbers that bound a connection, each with its reason.

Has no behaviour of its own: the peer, its outbox and its flow control read these.
"""

from __future__ import annotations

from msgspec import Struct

KIB = 1024
MIB = 1024 * 1024


class Limits(Struct, frozen=True, kw_only=True):
    """How much a connection may hold. Pass one to a role to change a number."""

    # The reference SDK's limit; the largest line seen from a real agent is 0.6 MiB, a screenshot is a few.
    message_bytes: int = 32 * MIB

    # Small marks cost no throughput and keep a cancel from queueing behind output (measured: 16 KiB and 256 KiB
    # stream equally fast, but cancel takes 0.5 ms instead of 3).
    out_mark_bytes: int = 16 * KIB
    # Collected before it is written, at most for one turn of the loop: what a pipe holds, so that a reader of large
    # updates is woken once for many of them.
    out_batch_bytes: int = 64 * KIB
    # A peer that does not read gets this much room and this much time; then the connection is closed.
    out_limit_bytes: int = 64 * MIB
    out_stall_seconds: float = 60.0

    # Updates one consumer has not taken yet: above the mark reading may pause, at `resume` it goes on.
    in_mark_bytes: int = 256 * KIB
    in_resume_bytes: int = 64 * KIB
    # Where reading must go on because another task depends on it, this is what one slow consumer may hold, next to one
    # message of any size: a single message that is not too long by itself never is too much.
    in_limit_bytes: int = 16 * MIB

    # Requests of the peer that run at once; the next is refused instead of piling up tasks.
    running_requests: int = 1024

    # Updates that arrive before the answer which names their session.
    unknown_sessions: int = 64
    unknown_bytes: int = 1 * MIB

    # Text of messages that a session's state keeps for one turn, in characters; None keeps everything. An agent that
    # does not stop writing must not fill the memory; the longest real answers have a few hundred thousand.
    turn_text: int | None = 16 * MIB

    # Lines in a row that are not messages, after which a client closes the connection: banners and warnings on stdout
    # are a dozen lines, and a program that is not an agent writes without end.
    noise_lines: int = 100

    # A sender gives the loop a turn after this many messages or this much time, whichever comes first: one turn
    # per message costs four times the throughput, none at all would leave a cancel unread.
    quantum: int = 32
    slice_seconds: float = 0.001


DEFAULT_LIMITS = Limits()

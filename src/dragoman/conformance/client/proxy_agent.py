"""The agent that a judged client starts: a transparent relay to the judge process.

Owns moving bytes between its standard streams and the judge's socket, and reporting to the judge what only this process
can see: the end of its input, and a signal. It is started for every case, so it runs by its path on a bare interpreter,
imports nothing of this package and nothing that takes time; `program.py` reads and writes the other end of its records.
"""

from __future__ import annotations

import _socket  # `socket` imports enum and selectors: a third of this program's whole start
import _thread
import os
import sys

TYPE_CHECKING = False  # see dragoman/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable

# A record is its kind, the length of its payload in four bytes, and the payload.
HEAD_BYTES = 5
# From the judge: bytes for stdout, bytes for stderr, end stdout, end with this exit code.
STDOUT, STDERR, CLOSE, EXIT = b"O", b"R", b"C", b"X"
# To the judge: bytes from stdin, end of stdin, a signal, all of a STDERR record was taken.
STDIN, EOF, TERM, TAKEN = b"I", b"E", b"T", b"D"

_READ_BYTES = 1 << 16


def main(path: str) -> None:
    """Serve as the agent until the judge or the client ends it."""
    judge = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    judge.connect(path)
    lock = _thread.RLock()

    def report(kind: bytes, payload: bytes = b"") -> None:
        with lock:
            judge.sendall(kind + len(payload).to_bytes(4, "big") + payload)

    def read_stdin() -> None:
        try:
            while data := os.read(0, _READ_BYTES):
                report(STDIN, data)
            report(EOF)
        except OSError:
            os._exit(0)  # the judge is gone

    _thread.start_new_thread(read_stdin, ())
    _watch_for_term(report)
    while head := _receive(judge, HEAD_BYTES):
        payload = _receive(judge, int.from_bytes(head[1:], "big"))
        if head[:1] == STDOUT:
            _write(1, payload)
        elif head[:1] == STDERR:
            _write(2, payload)
            report(TAKEN)
        elif head[:1] == CLOSE:
            os.close(1)
        else:
            os._exit(int(payload))
    os._exit(0)


def _watch_for_term(report: Callable[[bytes, bytes], None]) -> None:
    """Watch for SIGTERM: a client may close the input and signal at once, and the judge has to know whether it did
    both.
    """
    import signal  # after the handshake began, which this would delay

    def on_term(number: int, frame: object) -> None:
        import select

        poll = select.poll()
        poll.register(0, 0)  # POLLHUP is always reported
        report(TERM, b"closed" if poll.poll(0) else b"open")
        os._exit(0)

    signal.signal(signal.SIGTERM, on_term)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the client, which is in the same group


def _receive(judge: _socket.socket, size: int) -> bytes:
    parts = []
    while size:
        data = judge.recv(min(size, 1 << 20))
        if not data:
            return b""
        parts.append(data)
        size -= len(data)
    return b"".join(parts)


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError:
        pass  # the client does not read any more; the judge sees that by other means


if __name__ == "__main__":
    main(sys.argv[1])

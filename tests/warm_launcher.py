"""Lets a waiting process run a program with the streams, folder and environment of this one; see `warm_programs.py`.

It is started as `python -I -S warm_launcher.py SOCKET WORDS...` and imports only what is part of the interpreter: its
start is what each run costs. Signals go to the program, and its end is the end of this process.
"""

import _signal  # type: ignore[import-not-found]
import _socket
import posix
import sys

SIGNALS = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP)


def main() -> None:
    line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    line.connect(sys.argv[1])
    environment = [name + b"=" + value for name, value in posix.environ.items()]
    words = [posix.getcwdb(), b"%d" % (len(sys.argv) - 2), *map(_bytes, sys.argv[2:]), *environment]
    streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
    for signal in SIGNALS:
        if _signal.getsignal(signal) != _signal.SIG_IGN:
            _signal.signal(signal, lambda number, _: line.send(bytes([number])))
    line.sendmsg([b"\0".join(words)], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
    # The program alone has the streams open now: their other ends see when it closes them.
    for number in (0, 1, 2):
        posix.close(number)
    status = line.recv(4)
    if not status:
        posix._exit(70)  # the waiting process is gone
    code = posix.waitstatus_to_exitcode(int.from_bytes(status, sys.byteorder))
    if code < 0:
        if -code != _signal.SIGKILL:
            _signal.signal(-code, _signal.SIG_DFL)
        posix.kill(posix.getpid(), -code)
    posix._exit(code)


def _bytes(word: str) -> bytes:
    return word.encode("utf-8", "surrogateescape")


main()

"""Pictures in a real terminal: the bytes that one gets which knows the kitty graphics protocol."""

from __future__ import annotations

from base64 import b64decode

import pytest

pytest.importorskip("textual")
pytest.importorskip("pyte")
pytest.importorskip("PIL")

from dragoman.tui.screen.conversation.pictures.shown import PLACEHOLDER, marks
from tests.host.local.kit import HostPlaceKit
from tests.tui.drawn_pictures import encoded, stripes
from tests.tui.test_terminal import SCRIPTED, Terminal


def test_a_terminal_that_answers_gets_the_image_its_places_and_its_end(
    place: HostPlaceKit,
    terminals: list[Terminal],
) -> None:
    data = encoded(stripes(64, 32))
    (place.project / "chart.png").write_bytes(b64decode(data))
    for name in ("SSH_CONNECTION", "SSH_TTY"):
        place.environment.pop(name, None)
    terminals.append(terminal := Terminal(place, *SCRIPTED, TERM="xterm-kitty", COLORTERM="truecolor"))
    # As a terminal answers, in the order of the questions, before there is a screen.
    terminal.type("\x1b_Gi=31;OK\x1b\\\x1bP>|kitty(0.43.1)\x1b\\\x1b]11;rgb:0000/0000/0000\x1b\\")
    terminal.until_written(rb"\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\\x1b\[>q\x1b\]11;\?")
    terminal.until("scripted  Ask")  # the agent is there, and takes images
    assert "kitty" not in terminal.text, "the answers are not typed into the input"
    terminal.type("say seen @chart.png \r")
    sent = terminal.until_written(rb"\x1b_Ga=T,U=1,f=100,i=(\d+),c=64,r=16,q=2,m=0;([^\x1b]+)\x1b\\")
    assert sent[2].decode() == data, "the bytes of the file as they are"
    red, green, blue = int(sent[1]).to_bytes(3, "big")
    first, last = (f"{PLACEHOLDER}{marks()[15]}{marks()[column]}" for column in (0, 63))
    row = rf"\x1b\[38;2;{red};{green};{blue}(?:;49)?m{first}[^\x1b]*{last}\x1b\[0m"
    terminal.until_written(row.encode())
    terminal.until_written(rb"seen")
    terminal.until_written(rb"Enter send")
    terminal.type("\x04")
    assert terminal.wait() == 0
    assert terminal.raw.count(b"\x1b_Ga=T,") == 1, "it is transmitted once"
    end = terminal.raw.rindex(b"\x1b_Ga=d,d=I,i=" + sent[1] + b",q=2\x1b\\")
    assert end < terminal.raw.rindex(b"\x1b[?1049l"), "deleted before the screen is left"

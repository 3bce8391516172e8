"""A copy of a session from the list of sessions, in a real terminal with a real host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("textual")
pytest.importorskip("pyte")

from dragoman.errors import ConfigError
from dragoman.host.local.thin import HostLost, HostRefused
from dragoman.tui.local_host import session_rows
from tests.host.local.kit import HostPlaceKit
from tests.tui.opened import row
from tests.tui.test_terminal import SCRIPTED, Terminal


def test_f_in_the_list_opens_a_copy_and_both_sessions_go_on(place: HostPlaceKit, terminals: list[Terminal]) -> None:
    terminals.append(terminal := Terminal(place, *SCRIPTED))
    terminal.until("F1 help")
    terminal.type("say one\r")
    terminal.until("│ one\n  done · ")
    client = place.connect()
    original = client.call("session/list")["sessions"][0]["sessionId"]
    terminal.type("\x10")
    terminal.until("f fork")
    terminal.type("f")
    assert "│ one\n  done · " in terminal.until("(fork)"), "the copy, with its history"
    terminal.type("say only in the copy\r")
    terminal.until("│ only in the copy\n  done · ")
    assert len(client.call("session/list")["sessions"]) == 2
    words = [{"type": "text", "text": "say only in the original"}]
    assert client.call("session/prompt", sessionId=original, prompt=words)["stopReason"] == "end_turn"
    terminal.type("say again\r")
    assert "only in the original" not in terminal.until("│ again\n  done · ")


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (HostRefused({"code": -32601, "message": "Method not found"}), "its agent cannot copy a session"),
        (HostRefused({"code": -32600, "message": "A prompt is running"}), "not copied: A prompt is running"),
        (HostLost("gone", is_fresh=False), "not copied: gone"),
    ],
)
def test_what_cannot_be_copied_gets_a_sentence(
    error: Exception, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def call(method: str, **params: Any) -> Any:
        raise error

    @contextmanager
    def connected() -> Iterator[Any]:
        yield SimpleNamespace(call=call)

    monkeypatch.setattr(session_rows, "_connected", connected)
    with pytest.raises(ConfigError) as refused:
        session_rows.fork_session(row("s1"))
    assert str(refused.value) == sentence

"""A copy of a session from the list of sessions, with a real host."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("textual")

from dragoman.errors import ConfigError
from dragoman.host.local.thin import HostLost, HostRefused
from dragoman.tui.local_host import session_rows
from tests.tui.here import SCRIPTED, UserHere
from tests.tui.opened import row


async def test_ctrl_f_in_the_list_opens_a_copy_and_both_sessions_go_on(user: UserHere) -> None:
    async with user.host_here(), user.screen(**SCRIPTED) as client:
        await client.until("F1 help")
        client.type("say one\r")
        await client.until("│ one\n  done · ")
        other = await asyncio.to_thread(user.connect)

        async def call(method: str, **params: Any) -> Any:
            return await asyncio.to_thread(other.call, method, **params)

        original = (await call("session/list"))["sessions"][0]["sessionId"]
        client.type("\x10")
        await client.until("Ctrl+F fork")
        client.type("\x06")
        assert "│ one\n  done · " in await client.until("(fork)"), "the copy, with its history"
        client.type("say only in the copy\r")
        await client.until("│ only in the copy\n  done · ")
        assert len((await call("session/list"))["sessions"]) == 2
        words = [{"type": "text", "text": "say only in the original"}]
        assert (await call("session/prompt", sessionId=original, prompt=words))["stopReason"] == "end_turn"
        client.type("say again\r")
        assert "only in the original" not in await client.until("│ again\n  done · ")
        other.close()


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

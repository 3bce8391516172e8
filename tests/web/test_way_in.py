"""What a page at another port of the same name can do with the cookie of a paired browser: nothing."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.web.kit import Web

TRY = """async address => {
    const found = [];
    const ways = [["cors", {}], ["no-cors", {}], ["cors", {"X-Dragoman-Half": "guess"}]];
    for (const path of ["/ticket", "/unpair", "/pair"]) {
        for (const [mode, headers] of ways) {
            try {
                const sent = {method: "POST", credentials: "include", mode, headers, body: "{}"};
                const answer = await fetch(address + path, sent);
                found.push(answer.type + " " + answer.status);
            } catch { found.push("refused"); }
        }
    }
    found.push(await new Promise(done => {
        const socket = new WebSocket(address.replace("http", "ws") + "/acp", ["acp.v1"]);
        socket.onopen = () => done("open");
        socket.onclose = event => done("closed " + event.code);
    }));
    return found;
}"""


async def test_a_page_at_another_port_gets_the_cookie_and_no_ticket(web: Web) -> None:
    received: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.readuntil(b"\r\n\r\n"))
        body = b"<!doctype html><title>other</title>"
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
        writer.write(head % len(body) + body)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server, web.page() as page:
        other: Any = await page.context.new_page()
        elsewhere = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        await other.goto(elsewhere)
        web.requests.remove(elsewhere)  # of the test, not of the page
        assert b"cookie: device=" in received[0].lower()  # why half a key is not enough
        found = await other.evaluate(TRY, web.url)
        # What cannot be read is no answer of ours with a ticket: it was refused for its origin.
        assert set(found) <= {"refused", "opaque 0", "closed 1006"}
        assert found[-1] == "closed 1006"
        # The browser notes on its console what it has refused to the other page, and nothing else.
        web.problems[:] = [problem for problem in web.problems if "blocked by CORS policy" not in problem]
        device = await page.evaluate("dragoman.app.host.value.device")
        assert web.tokens.get(device) is not None
        link = await other.evaluate("address => { location.href = address; }", f"{web.url}/")
        assert link is None
        await other.wait_for_url(f"{web.url}/")
        assert "Another site has sent the browser here" in await other.inner_text("body")

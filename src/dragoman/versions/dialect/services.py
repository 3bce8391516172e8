"""Requests of an agent of the dialect 2025.1 for files and terminals, passed on to a client of version 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dragoman.versions.dialect import fields as dialect
from dragoman.versions.frames import Frame, members, text
from dragoman.versions.router import HANDLED, FrameRouter

if TYPE_CHECKING:
    from collections.abc import Callable

_SHELL: Final = frozenset(" \t\n|&;<>()$`\\\"'*?[]#~=%!{}")


class AgentServices:
    """Translates the requests; `folder` is where a command runs that names no other."""

    def __init__(self, router: FrameRouter, folder: str) -> None:
        self._router = router
        self.folder = folder
        self._terminals: dict[str, str] = {}
        self.methods: Final[dict[str, Callable[[Any, str, str, Frame], None]]] = {
            "fs/read_text_file": self._read_file,
            "fs/write_text_file": self._write_file,
            "terminal/create": self._create_terminal,
            "terminal/output": self._terminal_output,
            "terminal/wait_for_exit": self._wait_for_exit,
            "terminal/kill": self._end_terminal,
            "terminal/release": self._end_terminal,
        }

    def session_of(self, params: Frame) -> str | None:
        """The session that created the terminal of a request."""
        return self._terminals.get(text(params.get("terminal_id")))

    def _serve(
        self, request_id: Any, method: str, session_id: str, params: Frame, on_result: Callable[[Any], Any]
    ) -> None:
        asked = {"sessionId": session_id, **params}
        self._router.pass_request(
            "agent",
            request_id,
            method,
            asked,
            on_result,
            lambda reason: dialect.error_to_dialect(reason, is_gate=True),
        )

    def _read_file(self, request_id: Any, method: str, session_id: str, params: Frame) -> None:
        asked = {"path": params.get("path")}
        self._serve(
            request_id, method, session_id, asked, lambda result: {"content": text(members(result).get("content"))}
        )

    def _write_file(self, request_id: Any, method: str, session_id: str, params: Frame) -> None:
        asked = {"path": params.get("path"), "content": params.get("content")}
        self._serve(request_id, method, session_id, asked, lambda result: {"success": True})

    def _create_terminal(self, request_id: Any, method: str, session_id: str, params: Frame) -> None:
        line = text(params.get("command"))
        is_word = bool(line) and not _SHELL & set(line)
        command = {"command": line, "args": []} if is_word else {"command": "sh", "args": ["-c", line]}

        def created(result: Any) -> Frame:
            terminal_id = text(members(result).get("terminalId"))
            self._terminals[terminal_id] = session_id
            return {"terminal_id": terminal_id}

        self._serve(request_id, method, session_id, {**command, "cwd": params.get("cwd") or self.folder}, created)

    def _terminal_output(self, request_id: Any, method: str, session_id: str, params: Frame) -> None:
        def read(result: Any) -> Frame:
            given = members(result)
            ended = given.get("exitStatus")
            code = members(ended).get("exitCode")
            return {"output": text(given.get("output")), "exited": isinstance(ended, dict), "exit_code": code}

        self._serve(request_id, method, session_id, {"terminalId": params.get("terminal_id")}, read)

    def _wait_for_exit(self, request_id: Any, method: str, session_id: str, params: Frame) -> None:
        """The dialect wants the output with the exit code: version 1 has it in another request."""
        asked = {"terminalId": params.get("terminal_id")}

        def ended(result: Any) -> Any:
            code = members(result).get("exitCode")
            made = {"exit_code": code if isinstance(code, int) else -1, "output": ""}

            def read(answer: Any) -> None:
                made["output"] = text(members(answer).get("output"))
                self._router.answer("agent", request_id, made)

            where = {"sessionId": session_id, **asked}
            self._router.ask(
                "client", "terminal/output", where, read, lambda _: self._router.answer("agent", request_id, made)
            )
            return HANDLED

        self._serve(request_id, method, session_id, asked, ended)

    def _end_terminal(self, request_id: Any, method: str, session_id: str, params: Frame) -> None:
        """After a kill, too, the id is gone in the dialect: version 1 releases it by itself."""
        terminal_id = text(params.get("terminal_id"))

        def ended(result: Any) -> Frame:
            self._terminals.pop(terminal_id, None)
            if method == "terminal/kill":
                self._router.ask("client", "terminal/release", {"sessionId": session_id, "terminalId": terminal_id})
            return {"success": True}

        self._serve(request_id, method, session_id, {"terminalId": terminal_id}, ended)

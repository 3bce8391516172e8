"""What the judge answers when the agent calls a client method: files, terminals, permissions, questions to the user.

Owns real answers to every client method, with files and commands, so that an agent gets what it would get from an
editor; and the ways to be a difficult client: to answer with an error, to choose another option, or to hold a request
until the case answers it.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.agent.client import ClientError
from dragoman.agent.local_terminals import LocalTerminal
from dragoman.schema import encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.conformance.conversation import Conversation, WireMessage

NOT_FOUND: Final = -32002
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602


class Refusal(Exception):
    """The answer is an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class JudgeServices:
    """Answers the requests of one connection. A case changes the attributes to be another kind of client."""

    def __init__(self, conversation: Conversation, cwd: str) -> None:
        self.cwd = cwd
        self._conversation = conversation
        self._terminals: dict[str, LocalTerminal] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.held: list[WireMessage] = []
        """Requests that wait for the case to answer them, in the order they came."""
        self.reset()

    def reset(self) -> None:
        """Restore the answers of a friendly client."""
        self.choose: str = "allow_once"
        """The kind of permission option to select; "cancelled" selects none."""
        self.form: str = "accept"
        """The action that answers an elicitation."""
        self.errors: dict[str, int] = {}
        """Methods to answer with an error of this code."""
        self.hold: set[str] = set()
        """Methods whose requests are not answered here but kept in `held`."""
        self.answers: dict[str, Callable[[dict[str, Any]], object]] = {}
        """Methods to answer with a value that the case chooses."""
        self.held.clear()

    def serve(self, request: WireMessage) -> None:
        """Take one request of the agent."""
        if request.method in self.hold:
            self.held.append(request)
            return
        task = asyncio.get_running_loop().create_task(self._serve(request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End every terminal and every answer that is still being made."""
        for task in self._tasks:
            task.cancel()
        while self._tasks:
            await asyncio.wait(self._tasks)
        while self._terminals:
            _, terminal = self._terminals.popitem()
            await terminal.release()

    async def _serve(self, request: WireMessage) -> None:
        method = request.method
        try:
            if method in self.errors:
                raise Refusal(self.errors[method], "The judge refuses this on purpose")
            if method in self.answers:
                result = self.answers[method](request.params)
            else:
                answer = _METHODS.get(method)
                if answer is None:
                    raise Refusal(METHOD_NOT_FOUND, "Method not found")
                result = await answer(self, request.params)
        except Refusal as error:
            self._conversation.reply_error(request, error.code, error.message)
        except ClientError as error:
            self._conversation.reply_error(request, error.code, error.message)
        except OSError as error:
            self._conversation.reply_error(request, NOT_FOUND, str(error.strerror))
        except (KeyError, TypeError, ValueError):
            self._conversation.reply_error(request, INVALID_PARAMS, "Invalid params")
        else:
            self._conversation.reply(request, result)

    async def _permission(self, params: dict[str, Any]) -> object:
        return {"outcome": self.outcome(params)}

    def outcome(self, params: dict[str, Any]) -> dict[str, str]:
        """Return the outcome for a permission request, by the kind in `choose`."""
        option = next((offered for offered in params["options"] if offered["kind"] == self.choose), None)
        if option is None and self.choose == "allow_once":
            option = next((offered for offered in params["options"] if offered["kind"].startswith("allow")), None)
        return {"outcome": "cancelled"} if option is None else {"outcome": "selected", "optionId": option["optionId"]}

    async def _read_file(self, params: dict[str, Any]) -> object:
        lines = _lines(_absolute(params["path"]))
        start = max(params.get("line") or 1, 1) - 1
        limit = params.get("limit")
        return {"content": "".join(lines[start : None if limit is None else start + limit])}

    async def _write_file(self, params: dict[str, Any]) -> object:
        _write(_absolute(params["path"]), params["content"])
        return {}

    async def _create_terminal(self, params: dict[str, Any]) -> object:
        env = {variable["name"]: variable["value"] for variable in params.get("env") or ()}
        argv = [params["command"], *(params.get("args") or ())]
        cwd = _absolute(params.get("cwd") or self.cwd)
        terminal = LocalTerminal.start(argv, str(cwd), env, params.get("outputByteLimit"))
        self._terminals[terminal.id] = terminal
        return {"terminalId": terminal.id}

    async def _terminal_output(self, params: dict[str, Any]) -> object:
        return _builtins(await self._find(params).output())

    async def _wait_for_exit(self, params: dict[str, Any]) -> object:
        return _builtins(await self._find(params).wait())

    async def _kill_terminal(self, params: dict[str, Any]) -> object:
        await self._find(params).kill()
        return {}

    async def _release_terminal(self, params: dict[str, Any]) -> object:
        terminal = self._find(params)
        del self._terminals[params["terminalId"]]
        await terminal.release()
        return {}

    def _find(self, params: dict[str, Any]) -> LocalTerminal:
        terminal = self._terminals.get(params["terminalId"])
        if terminal is None:
            raise Refusal(NOT_FOUND, "Resource not found")
        return terminal

    async def _elicit(self, params: dict[str, Any]) -> object:
        if self.form == "accept" and params.get("mode") == "form":
            return {"action": "accept", "content": filled(params["requestedSchema"])}
        return {"action": self.form}


_METHODS: Final[dict[str, Any]] = {
    "session/request_permission": JudgeServices._permission,
    "fs/read_text_file": JudgeServices._read_file,
    "fs/write_text_file": JudgeServices._write_file,
    "terminal/create": JudgeServices._create_terminal,
    "terminal/output": JudgeServices._terminal_output,
    "terminal/wait_for_exit": JudgeServices._wait_for_exit,
    "terminal/kill": JudgeServices._kill_terminal,
    "terminal/release": JudgeServices._release_terminal,
    "elicitation/create": JudgeServices._elicit,
}


def _absolute(path: str) -> Path:
    """Return the path if it is absolute; a relative one would be resolved in the judge's own folder."""
    if not os.path.isabs(path):
        raise Refusal(INVALID_PARAMS, "The path must be absolute")
    return Path(path)


def _lines(path: Path) -> list[str]:
    with path.open(newline="\n") as file:
        return file.readlines()


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, newline="")


def filled(schema: dict[str, Any]) -> dict[str, Any]:
    """Make content that fits a form: the default of each field, or the simplest value of its type."""
    return {name: _value(wanted) for name, wanted in (schema.get("properties") or {}).items()}


def _value(wanted: dict[str, Any]) -> object:
    if wanted.get("default") is not None:
        return wanted["default"]
    match wanted.get("type"):
        case "string":
            choices = wanted.get("enum") or [choice["const"] for choice in wanted.get("oneOf") or ()]
            return choices[0] if choices else "x" * max(wanted.get("minLength") or 0, 4)
        case "number" | "integer":
            return wanted.get("minimum") or 0
        case "boolean":
            return False
    return []


def _builtins(value: object) -> Any:
    return msgspec.json.decode(encode(value))

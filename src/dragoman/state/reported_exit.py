"""The output and the end of commands that agents run themselves, from the places in which agents report them.

Pure. The protocol has no place for a terminal of the agent, so several agents share a convention in `_meta`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.state import ToolCallState


def own_terminal_output(meta: Any) -> tuple[str, str] | None:
    """Return the terminal's id and a piece of its output, if the `_meta` of an update has one."""
    if isinstance(meta, dict):
        match meta.get("terminal_output_delta") or meta.get("terminal_output"):
            case {"terminal_id": str(terminal_id), "data": str(text)}:
                return terminal_id, text
    return None


def own_terminal_end(meta: Any) -> tuple[str, int | None, str | None] | None:
    """Return the terminal's id, its exit code and its signal, if the `_meta` of an update has them."""
    if isinstance(meta, dict):
        match meta.get("terminal_exit"):
            case {"terminal_id": str(terminal_id), **ending}:
                code, signal = ending.get("exit_code"), ending.get("signal")
                return (
                    terminal_id,
                    code if isinstance(code, int) else None,
                    signal if isinstance(signal, str) else None,
                )
    return None


def reported_exit(call: ToolCallState) -> int | None:
    """Return the exit code reported by an agent that runs commands itself, from the places agents use."""
    places = [call.raw_output]
    if isinstance(call.meta, dict):
        places.append(call.meta.get("terminal_exit"))
    if isinstance(call.raw_output, dict) and isinstance(call.raw_output.get("contents"), list):
        places += call.raw_output["contents"]
    for place in places:
        if isinstance(place, dict):
            for name in ("exit_code", "exitCode"):
                code = place.get(name)
                if isinstance(code, int) and not isinstance(code, bool):
                    return code
    return None

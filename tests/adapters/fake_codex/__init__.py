"""A small `codex app-server`, written from recordings of the real one: a real process with real commands.

Lines of JSON on stdin and stdout, without `jsonrpc`. Threads are kept below CODEX_HOME, so another process can resume
them. The first word of a prompt says what the turn does; anything else is repeated. Like the real one it answers an
interrupt at once and leaves the running command alive, as a "background terminal".

    THINK, PLAN, SEARCH, RETRY, FAIL, CRASH, WAIT (until it is steered or interrupted), RUN command, LEAVE command
    (in the background), READ path, ADD path, EDIT path, MCP, ASK, UNKNOWN, DEAF command (interrupts are ignored), MORE,
    FLOOD count
"""

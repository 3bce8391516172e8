"""ACP over a network: Streamable HTTP and WebSocket, both ends. Needs the extra `remote`.

One `asyncio.Protocol` serves all endpoints of a server (`server.py`): h11 parses HTTP, the sans-I/O part of
`websockets` speaks WebSocket, `gate.py` decides who may enter before anything else is read. Each ACP connection becomes
a `dragoman.rpc.transport.Transport`, as over stdio. The wire is that of the TypeScript SDK 2.4.0; numbered events, with
which a client that lost its stream goes on where it was, are added in a way that other clients ignore.
"""

from dragoman.errors import ConfigError

try:
    import h11  # noqa: F401 - to see that it is there
    import websockets  # noqa: F401
except ImportError:
    from dragoman.extras import install_command

    raise ConfigError(f"connections over a network need two more packages: {install_command('remote')}") from None

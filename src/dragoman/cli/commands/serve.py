"""`dragoman serve`: runs a host that other machines connect to, and changes its tokens."""

from __future__ import annotations

from typing import Final

from dragoman.cli import exits
from dragoman.cli.command import JSON, Argument, CliCall, CliCommand, CliOption
from dragoman.cli.masked_streams import mask_stored_keys
from dragoman.cli.suggestions import agent_names

_SEE_HELP: Final = "see dragoman serve --help"
_TOKEN_OPTIONS: Final = ("user", "right", "programs", "expires", "json")
_SHARED: Final = ("folder", "data")


def run(call: CliCall) -> int:
    given = call.given
    is_token = given.what is not None
    for option in COMMAND.options:
        name = option.flag.lstrip("-").replace("-", "_")
        is_given = getattr(given, name) not in (None, False, [])
        if is_given and name not in _SHARED and (name in _TOKEN_OPTIONS) != is_token:
            where = "serve token" if name in _TOKEN_OPTIONS else "serve without a word behind it"
            raise exits.CliError(f"{option.flag} goes with {where}", hint=_SEE_HELP)
    mask_stored_keys()
    if not is_token:
        from dragoman.cli.serve.run import serve

        return serve(call)
    from dragoman.cli.serve.tokens import change_tokens

    if call.program is not None:
        raise exits.CliError("serve token takes no program", hint=_SEE_HELP)
    if given.action is None:
        raise exits.CliError("serve token: missing action", hint="use add, list, pair or revoke")
    if given.action in ("list", "pair") and given.name is not None:
        raise exits.CliError(f"serve token {given.action} takes no name", hint=_SEE_HELP)
    return change_tokens(given)


COMMAND = CliCommand(
    run=run,
    description=(
        "Runs agents for editors and programs on other machines. Sessions outlive connections: a turn goes on while\n"
        "the line is cut, and a client that comes back gets what it missed. WebSocket and Streamable HTTP are spoken\n"
        "at the same port, at /acp (or /acp/AGENT for one agent); /healthz and /metrics are for monitoring. Every\n"
        "request needs a token. SIGTERM and Ctrl-C let running turns end. See docs/hosting.md.\n"
        "  token add NAME     make a token and print it; it is kept as a hash\n"
        "  token list         list the tokens\n"
        "  token pair         print a code that pairs one browser with a host that runs with --web\n"
        "  token revoke NAME  remove a token; open connections end too\n"
        "  backup DEST        save sessions, tokens and files, also while the host runs\n"
        "  restore SOURCE     put a backup into the data folder of a host that does not run\n"
        "  audit              print who did what; see dragoman serve audit --help"
    ),
    arguments=(
        Argument("what", "token, to change the tokens instead of serving", choices=("token",), is_optional=True),
        Argument("action", "what to do with tokens", choices=("add", "list", "pair", "revoke"), is_optional=True),
        Argument("name", "the token", is_optional=True),
    ),
    options=(
        CliOption(
            "--listen",
            "where to listen: HOST:PORT or unix:PATH (default: 127.0.0.1:8787)",
            value="ADDRESS",
            is_repeatable=True,
        ),
        CliOption(
            "--agent",
            "an agent that clients may use; the first is used if none is named",
            value="AGENT",
            short="-a",
            is_repeatable=True,
            suggest=agent_names,
        ),
        CliOption(
            "--folder",
            "a folder that sessions may work in (default: the current one); with token add: of those, for this token",
            value="DIR",
            is_repeatable=True,
        ),
        CliOption("--data", "the folder of sessions and tokens (default: ~/.local/share/dragoman/serve)", value="DIR"),
        CliOption("--allow", "what agents may do without asking, in every session", value="RULE", is_repeatable=True),
        CliOption("--deny", "what they may never do", value="RULE", is_repeatable=True),
        CliOption("--policy", 'more rules: {"allow": [], "deny": [], "ask": []}', value="FILE"),
        CliOption(
            "--sandbox",
            "run commands of agents in a sandbox, where they need no rule: always (require), unless a user permitted "
            "the command (auto), never (off, the default)",
            value="WHEN",
            choices=("off", "auto", "require"),
        ),
        CliOption(
            "--sandbox-write", "another folder that may be written in the sandbox", value="FOLDER", is_repeatable=True
        ),
        CliOption("--no-fs", "offer agents no access to files; most of them then use the disk themselves"),
        CliOption("--no-terminal", "offer agents no terminals; most of them then run commands themselves"),
        CliOption("--tls-cert", "the certificate chain, a PEM file", value="FILE"),
        CliOption("--tls-key", "the key of the certificate, a PEM file", value="FILE"),
        CliOption("--behind-proxy", "a proxy in front speaks TLS; needed without a certificate if others can connect"),
        CliOption("--host", "a name by which clients call this server", value="NAME", is_repeatable=True),
        CliOption(
            "--origin", "pages that may use it, such as https://agents.example", value="ORIGIN", is_repeatable=True
        ),
        CliOption(
            "--limit",
            "how much a token, a user or the host may use, such as turns=4; see docs/remote-security.md",
            value="NAME=NUMBER",
            is_repeatable=True,
        ),
        CliOption("--oidc-issuer", "let users of this OpenID Connect provider in; see docs/hosting.md", value="URL"),
        CliOption(
            "--oidc-audience", "whom the provider makes tokens for this host for", value="NAME", is_repeatable=True
        ),
        CliOption("--oidc-client-id", "what clients name themselves there (default: the audience)", value="ID"),
        CliOption("--oidc-user-claim", "the claim that names the user (default: sub)", value="CLAIM"),
        CliOption(
            "--oidc-right",
            "rights of a group, such as ops=admin; '*' is every other user (default: '*=view,prompt,answer'), and "
            "refuse lets none of them in",
            value="GROUP=RIGHTS",
            is_repeatable=True,
        ),
        CliOption("--oidc-rules", "more of it, a JSON file with the members of serve.oidc", value="FILE"),
        CliOption("--ui-stream", "serve AI SDK clients (useChat) as well, at /ui-stream; see docs/agents-as-tools.md"),
        CliOption("--web", "serve the web page as well, and let devices pair; see docs/web.md"),
        CliOption("--traffic", "keep the last messages of each agent in memory, for users who look at them"),
        CliOption(
            "--drain",
            "how long turns may go on at the end (default: 30; 600 while another host waits to go on)",
            value="SECONDS",
        ),
        CliOption(
            "--replace",
            "go on in place of the host that uses the data folder: it passes on its port, ends its turns, and keeps "
            "prompts for this one; start as usual if none runs",
        ),
        CliOption("--access-log", "write a line for each request and connection; - is stderr", value="FILE"),
        CliOption(
            "--log-format",
            "of the access log (default: json); with json given, stderr is lines of JSON too, one for each event",
            value="FORMAT",
            choices=("json", "text"),
        ),
        CliOption("--audit-days", "remove records of who did what after this (default: keep all)", value="DAYS"),
        CliOption(
            "--user",
            "with token add and pair: whose sessions it sees (default: its name; of a browser: local)",
            value="USER",
        ),
        CliOption(
            "--right",
            "with token add and pair: what it may do (default: view, prompt, answer); admin runs the host",
            value="RIGHT",
            choices=("view", "prompt", "answer", "admin"),
            is_repeatable=True,
        ),
        CliOption("--programs", "with token add: its clients may send MCP servers that are programs"),
        CliOption("--expires", "with token add and pair: how long it is valid, such as 12h or 30d", value="DURATION"),
        JSON,
    ),
    examples=(
        "dragoman serve -a claude -a gemini --folder ~/src",
        "dragoman serve --listen 0.0.0.0:8787 --host agents.example --tls-cert chain.pem --tls-key key.pem -a codex",
        "dragoman serve -a claude --ui-stream --origin https://chat.example",
        "dragoman serve --listen unix:/run/user/1000/agents.sock -- python my_agent.py",
        "dragoman serve -a claude --sandbox require --deny 'read:**/.env'",
        "dragoman serve -a claude --oidc-issuer https://login.example --oidc-audience agents --oidc-right ops=admin",
        "dragoman serve token add laptop --user ada --expires 30d",
        "dragoman serve token add dashboard --user ada --right view",
        "dragoman serve token add operator --right view --right admin",
        "dragoman serve token revoke laptop",
        "dragoman serve --replace -a claude --folder ~/src",
        "dragoman serve -a claude --web --behind-proxy --host agents.example",
        "dragoman serve token pair --user ada --right view --right answer",
    ),
    takes_program=True,
)

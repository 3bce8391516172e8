"""The places of keys, passwords, logins, cookies and histories: a command in a sandbox cannot read them.

Owns the list. Does not access the disk. Folders that hold programs or settings besides a login are not listed as a
whole, only the files with the login.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.splitlines() if line.strip())


# Below the home, as all that follow. An agent reads its own place, and no other.
AGENT_PLACES: Final = _lines(
    """
    .claude
    .claude.json
    .config/Claude
    .codex
    .gemini
    .qwen
    .copilot
    .config/github-copilot
    .local/share/opencode
    .local/state/opencode
    .config/opencode
    .opencode
    .cline
    .kimi
    .kimi-code
    .vibe
    .fast-agent
    .hermes
    .openhands
    .augment
    .local/share/goose
    .local/state/goose
    .config/goose
    .cursor
    .config/cursor
    .config/Cursor
    .config/amp
    .local/share/amp
    .config/crush
    .local/share/crush
    .aider
    .aider.conf.yml
    .factory
    .grok
    .iflow
    .kiro
    .local/share/kiro-cli
    .local/share/amazon-q
    .junie
    .trae
    .pi
    .continue
    .config/aichat
    .config/io.datasette.llm
    .config/openai
    .config/anthropic
    """
)
_TOOLS: Final = _lines(
    """
    .ssh
    .putty
    .gnupg
    .aws
    .azure
    .kube
    .docker
    .oci
    .fly
    .bluemix
    .step
    .pki
    .kaggle
    .terraformrc
    .terraform.d/credentials.tfrc.json
    .vault-token
    .pulumi/credentials.json
    .supabase
    .databrickscfg
    .snowsql
    .snowflake
    .s3cfg
    .boto
    .netrc
    .git-credentials
    .config/git/credentials
    .config/gh
    .config/glab-cli
    .config/hub
    .config/tea
    .config/gcloud
    .config/doctl
    .config/hcloud
    .config/linode-cli
    .config/scw
    .config/heroku
    .config/netlify
    .config/stripe
    .config/.wrangler
    .wrangler
    .config/configstore
    .config/argocd
    .config/helm/registry
    .config/containers/auth.json
    .config/rclone
    .config/sops
    .config/age
    .config/solana
    .local/share/com.vercel.cli
    .local/share/mkcert
    .local/share/uv/credentials
    .pgpass
    .my.cnf
    .mylogin.cnf
    .pypirc
    .pip/pip.conf
    .config/pip/pip.conf
    .config/pypoetry/auth.toml
    .npmrc
    .yarnrc
    .yarnrc.yml
    .bunfig.toml
    .cargo/credentials
    .cargo/credentials.toml
    .gem/credentials
    .local/share/gem/credentials
    .bundle/config
    .composer/auth.json
    .config/composer/auth.json
    .m2/settings.xml
    .m2/settings-security.xml
    .gradle/gradle.properties
    .nuget/NuGet
    .sbt/.credentials
    .ivy2/.credentials
    .hex/hex.config
    .pub-cache/credentials.json
    .config/dart
    .cache/huggingface/token
    .cache/huggingface/stored_tokens
    .huggingface
    """
)
_PRIVATE: Final = _lines(
    """
    .password-store
    .local/share/keyrings
    .local/share/kwalletd
    .config/op
    .config/1Password
    .config/Bitwarden
    .config/Bitwarden CLI
    .config/keepassxc
    .Xauthority
    .ICEauthority
    .config/dragoman
    .local/state/dragoman
    .local/share/dragoman
    .mozilla
    .cache/mozilla
    .thunderbird
    .config/google-chrome
    .config/google-chrome-beta
    .config/google-chrome-unstable
    .cache/google-chrome
    .config/chromium
    .cache/chromium
    .config/BraveSoftware
    .config/microsoft-edge
    .config/vivaldi
    .config/opera
    .config/Code
    .config/Slack
    .config/discord
    .config/Signal
    .config/Element
    .local/share/TelegramDesktop
    .config/evolution
    .local/share/evolution
    .var/app
    snap/firefox
    snap/chromium
    snap/thunderbird
    """
)
_HISTORIES: Final = _lines(
    """
    .bash_history
    .zsh_history
    .zhistory
    .histfile
    .history
    .sh_history
    .ash_history
    .ksh_history
    .local/state/bash
    .local/state/zsh
    .config/zsh/.zsh_history
    .local/share/fish
    .local/share/atuin
    .local/share/nushell
    .config/nushell/history.txt
    .local/share/powershell
    .python_history
    .ipython
    .node_repl_history
    .irb_history
    .pry_history
    .psql_history
    .mysql_history
    .mariadb_history
    .sqlite_history
    .mongo_history
    .dbshell
    .rediscli_history
    .lesshst
    .wget-hsts
    .viminfo
    .local/share/nvim/shada
    .local/state/nvim/shada
    """
)
SECRET_PLACES: Final = (*_TOOLS, *_PRIVATE, *_HISTORIES, *AGENT_PLACES)
# Read by root, and by a program in a container, whose tokens everyone there can read.
SYSTEM_PLACES: Final = (
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/ssl/private", "/etc/krb5.keytab"),
    *(f"/etc/ssh/ssh_host_{kind}_key" for kind in ("rsa", "ecdsa", "ed25519", "dsa")),
    *("/etc/wireguard", "/etc/NetworkManager/system-connections", "/etc/letsencrypt", "/etc/kubernetes"),
    *("/etc/rancher", "/var/lib/kubelet", "/run/secrets"),
)
# Variables that name another place for the same.
_VARIABLES: Final = (
    *("CLAUDE_CONFIG_DIR", "CODEX_HOME", "VIBE_HOME", "HERMES_HOME", "GNUPGHOME", "DOCKER_CONFIG", "GH_CONFIG_DIR"),
    *("CLOUDSDK_CONFIG", "AZURE_CONFIG_DIR", "KUBECONFIG", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "NETRC"),
    *("GOOGLE_APPLICATION_CREDENTIALS", "NPM_CONFIG_USERCONFIG", "PGPASSFILE", "HISTFILE", "PASSWORD_STORE_DIR"),
)


def named_places(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the places that variables name instead of those below the home."""
    for name in _VARIABLES:
        yield from (place for place in environment.get(name, "").split(":") if place.startswith("/"))
    cargo = environment.get("CARGO_HOME", "")
    if cargo.startswith("/"):
        yield from (f"{cargo}/credentials", f"{cargo}/credentials.toml")

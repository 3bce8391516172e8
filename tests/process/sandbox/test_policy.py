"""What a policy takes from the user, and what it finds on the disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.errors import ConfigError
from dragoman.policy.secret_places import AGENT_PLACES
from dragoman.process.sandbox import Backend, Tripwire, make_policy
from dragoman.process.sandbox import policy as policy_module
from dragoman.process.sandbox.policy import linked_git, protected_paths
from dragoman.registry.facts import FACTS
from tests.process.sandbox.kit import Place, both, git, shell


def names(there: Place, *, roots: list[Path] | None = None) -> list[str]:
    policy = make_policy(roots or [there.project], temporary=there.temporary, home=there.home)
    base = str(there.project.parent)
    return [path.removeprefix(f"{base}/") for path in protected_paths(policy)]


def test_paths_are_resolved_and_secrets_come_from_the_home(there: Place) -> None:
    link = there.outside / "link"
    link.symlink_to(there.project)
    policy = make_policy([link, there.project], temporary=there.temporary, home=there.home, hidden=[there.outside])
    assert policy.roots == (str(there.project),)
    assert {str(there.home / ".ssh"), str(there.home / ".config/gh"), str(there.outside)} <= set(policy.hidden)
    assert policy.may_read(str(there.home / "notes"))
    assert not policy.may_read(str(there.home / ".ssh" / "id"))
    assert policy.may_write(str(there.temporary / "x"))
    assert not policy.may_write(f"{there.project}-other/x")
    assert not policy.network


@pytest.mark.parametrize(
    ("roots", "says"),
    [
        ([], "at least one root"),
        (["/"], "cannot be writable"),
        (["HOME"], r"contains '.*\.ssh', which stays hidden"),
        (["HOME/.ssh"], "stays hidden"),
        (["HOME/.config"], r"contains '.*/.config/.*', which stays hidden"),
        (["HOME/nowhere"], "is not a folder"),
        (["HOME/notes"], "is not a folder"),
    ],
)
def test_a_root_that_would_open_secrets_or_everything_is_refused(roots: list[str], says: str, there: Place) -> None:
    (there.home / ".config").mkdir()  # its secrets do not exist yet
    with pytest.raises(ConfigError, match=says):
        make_policy(
            [root.replace("HOME", str(there.home)) for root in roots], temporary=there.temporary, home=there.home
        )


def test_what_git_runs_is_protected_and_what_a_commit_writes_is_not(there: Place) -> None:
    git(there.project, "init", "-q")
    (there.project / ".git" / "info" / "attributes").touch()
    (there.project / ".git" / "modules" / "sub" / "hooks").mkdir(parents=True)
    assert names(there) == [
        "project/.git/hooks",
        "project/.git/config",
        "project/.git/info/attributes",
        "project/.git/modules/sub/hooks",
    ]


def test_only_protected_paths_that_exist_are_named_and_links_are_not_followed(there: Place) -> None:
    assert names(there) == []
    (there.outside / "AGENTS.md").touch()
    (there.project / "way").symlink_to(there.outside)
    (there.project / "src").mkdir()
    (there.project / "src" / "CLAUDE.md").touch()
    (there.project / "node_modules" / "x").mkdir(parents=True)
    (there.project / "node_modules" / "x" / "AGENTS.md").touch()
    (there.project / ".envrc").touch()
    assert names(there) == ["project/.envrc", "project/src/CLAUDE.md"]


def test_protected_files_cannot_be_buried_among_others(there: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_module, "_MOST_ENTRIES", 50)
    for number in range(60):
        (there.project / f"!{number}").touch()
    (there.project / "objects").mkdir()
    (there.project / "HEAD").touch()
    (there.project / "AGENTS.md").touch()
    assert names(there) == ["project/AGENTS.md"]


def linked(there: Place) -> Path:
    """A linked worktree in the project; its repository lies outside."""
    git(there.outside, "init", "-q", "main")
    git(there.outside / "main", "commit", "-q", "--allow-empty", "-m", "first")
    git(there.outside / "main", "worktree", "add", "-q", str(there.project / "tree"))
    return there.project / "tree"


def test_the_git_folder_of_a_linked_worktree_is_found(there: Place) -> None:
    tree = linked(there)
    shared = there.outside / "main" / ".git"
    found = linked_git(str(tree))
    assert found is not None
    assert (found.shared, found.own) == (str(shared), str(shared / "worktrees/tree"))
    assert set(found.written) == {str(shared / name) for name in ("worktrees/tree", "objects", "refs", "logs")}
    assert names(there, roots=[tree]) == [
        "project/tree/.git",
        "outside/main/.git/worktrees/tree/gitdir",
        "outside/main/.git/worktrees/tree/commondir",
    ]


@both
async def test_a_commit_in_a_linked_worktree_works(name: Backend, there: Place) -> None:
    tree = linked(there)
    ran = await shell(there.sandbox(name, roots=[tree]), "echo 1 >a && git add a && git commit -qm second && git log")
    assert ran.code == 0, ran.text
    assert "second" in ran.text
    assert git(tree, "status", "--porcelain") == ""


WORK = """
echo 2 >b && git add b && git stash -q && git stash pop -q && git commit -qm third && git checkout -qb other
git commit -q --allow-empty -m fourth && git branch new && git tag mark && git rebase -q HEAD^
git log --oneline
git branch -D new
"""


@both
async def test_the_rest_of_the_git_folder_of_a_linked_worktree_is_closed(name: Backend, there: Place) -> None:
    tree = linked(there)
    main = there.outside / "main"
    (main / "a").write_text("a")
    git(main, "add", "a")
    git(main, "commit", "-qm", "second")
    shared = main / ".git"

    def state() -> dict[str, bytes]:
        kept = ("HEAD", "index", "config", "description", "info/exclude", "packed-refs", "commondir", "config.worktree")
        return {name: (shared / name).read_bytes() for name in kept if (shared / name).exists()}

    before, hooks = state(), sorted((shared / "hooks").iterdir())
    sandbox = there.sandbox(name, roots=[tree])
    for line in (
        *(f"echo x > {shared}/{file}" for file in ("HEAD", "index", "config", "commondir", "config.worktree", "new")),
        *(f"echo x > {shared}/hooks/x; mv {shared}/hooks {shared}/h; rm {shared}/{file}" for file in ("HEAD", "index")),
        f"git -C {main} checkout -q --detach; git -C {main} rm -q a; git config a.b c; git pack-refs --all --prune",
        "git gc -q; git gc -q --auto --force",
    ):
        await shell(sandbox, line)
        assert state() == before, line
    assert sorted((shared / "hooks").iterdir()) == hooks
    assert git(main, "status", "--porcelain") == ""
    worked = await shell(sandbox, WORK)
    assert "fourth" in worked.text, worked.text
    assert "third" in worked.text, worked.text
    # To remove a branch git rewrites a file next to HEAD, so that does not work.
    assert {"new", "other", "tree"} <= set(git(tree, "branch", "--format=%(refname:short)").split())
    assert state() == before
    assert git(main, "fsck", "--no-dangling") == ""


@both
async def test_a_folder_that_git_shares_cannot_be_put_elsewhere(name: Backend, there: Place) -> None:
    git(there.project, "init", "-q")
    git(there.project, "commit", "-q", "--allow-empty", "-m", "first")
    git(there.project, "worktree", "add", "-q", str(there.outside / "tree"))
    sandbox = there.sandbox(name)
    tripwire = Tripwire(sandbox.policy, there.outside / "aside")
    tripwire.arm()
    await shell(sandbox, f"echo {there.temporary} > .git/commondir; echo /x > .git/worktrees/tree/commondir")
    await shell(sandbox, "git worktree add -q other")  # which is no attack
    changes = {change.path.removeprefix(f"{there.project}/.git/"): change for change in tripwire.check(restore=True)}
    assert changes["commondir"].happened == "created"
    assert not (there.project / ".git/commondir").exists()
    assert (there.project / ".git/worktrees/tree/commondir").read_text() == "../..\n"
    assert set(changes) <= {"commondir", "worktrees/tree/commondir"}


@pytest.mark.parametrize("target", ["HOME/.ssh", "HOME", "OUT", "."])
def test_a_git_file_cannot_open_any_other_folder(target: str, there: Place) -> None:
    place = target.replace("HOME", str(there.home)).replace("OUT", str(there.outside))
    for name in ("objects", "refs"):
        (there.outside / name).mkdir()
    (there.outside / "HEAD").touch()
    (there.project / ".git").write_text(f"gitdir: {place}\n")
    # Its own git folder can say what it likes, as long as it is not one of the outer repository's worktrees.
    (there.project / "gitdir").write_text(f"{there.project}/.git\n")
    (there.project / "commondir").write_text(f"{there.outside}\n")
    assert linked_git(str(there.project)) is None


LOGINS = """
.claude/.credentials.json .claude.json .codex/auth.json .gemini/oauth_creds.json .qwen/oauth_creds.json
.copilot/config.json .local/share/opencode/auth.json .config/goose/secrets.yaml .hermes/.env .kimi/config.toml
.npmrc .cargo/credentials .cargo/credentials.toml .vault-token .bash_history .zsh_history .python_history
.local/share/fish/fish_history .config/gh/hosts.yml .netrc .pgpass .my.cnf .docker/config.json .kube/config
.aws/credentials .git-credentials .config/git/credentials .config/gcloud/credentials.db .gem/credentials
.mozilla/firefox/key4.db .config/google-chrome/Default/Cookies .local/share/keyrings/login.keyring
.terraform.d/credentials.tfrc.json .config/containers/auth.json .cache/huggingface/token .m2/settings.xml
.local/share/dragoman/sessions.db .config/dragoman/settings.json .ssh/id_ed25519 .gnupg/x .password-store/x
"""


@both
async def test_logins_and_histories_cannot_be_read(name: Backend, there: Place) -> None:
    for login in LOGINS.split():
        (there.home / login).parent.mkdir(parents=True, exist_ok=True)
        (there.home / login).write_text("canary")
    (there.home / ".cargo" / "config.toml").write_text("open")
    ran = await shell(
        there.sandbox(name), f"cd {there.home} && cat {' '.join(LOGINS.split())}; cat .cargo/config.toml notes"
    )
    assert "canary" not in ran.text
    assert ran.text.endswith("opennotes")


def test_every_known_agent_keeps_its_login_in_a_hidden_place() -> None:
    for facts in FACTS:
        for place in (*facts.state, *facts.files):
            assert place.startswith(".cache/") or place in AGENT_PLACES, f"{facts.name}: {place}"


def test_an_agent_reads_its_own_login_and_no_other(there: Place) -> None:
    (there.home / ".codex").mkdir()
    policy = make_policy(
        [there.project],
        temporary=there.temporary,
        home=there.home,
        writable=[there.home / ".codex"],
        own=[there.home / ".codex"],
    )
    assert policy.may_read(f"{there.home}/.codex/auth.json")
    assert not policy.may_read(f"{there.home}/.claude/.credentials.json")
    with pytest.raises(ConfigError, match="stays hidden"):
        make_policy([there.home / ".codex"], temporary=there.temporary, home=there.home)


def test_a_secret_behind_a_link_or_a_variable_is_hidden_where_it_is(
    there: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    (there.home / ".bash_history").symlink_to("/dev/null")
    (there.home / ".npmrc").symlink_to(there.project / "npmrc")
    monkeypatch.setenv("KUBECONFIG", f"{there.outside}/one:{there.outside}/two:relative")
    monkeypatch.setenv("CODEX_HOME", str(there.project))
    monkeypatch.setenv("CARGO_HOME", str(there.outside))
    policy = make_policy([there.project], temporary=there.temporary, home=there.home)
    named = {f"{there.outside}/{name}" for name in ("one", "two", "credentials", "credentials.toml")}
    assert {*named, f"{there.project}/npmrc"} <= set(policy.hidden)
    assert not {"/dev/null", str(there.project)} & set(policy.hidden)

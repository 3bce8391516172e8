"""Denied commands with subcommands and options, and other words for the same: aliases, beginnings, management forms.

The facts were collected from the programs themselves: npm's own list of abbreviations, `--list` of cargo, the line
"Aliases" of docker's help, `--help` of the others, shortened options tried one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from tests.policy.spellings.quoting import Options


class Family(NamedTuple):
    """A rule, and the forms of its first words; options that may stand before the last of these words."""

    rule: str
    forms: tuple[str, ...]
    before: tuple[str, ...] = ()
    rest: str = "x"


_NPM = (
    "-s",
    "--silent",
    "-q",
    "--prefix .",
    "-w a",
    "--loglevel=warn",
    "--no-audit",
    "--offline",
    "--json",
    "-C .",
    "-d",
)
_GIT = (
    "-C .",
    "-c a.b=c",
    "--no-pager",
    "--git-dir=.git",
    "--work-tree=.",
    "--git-dir .git",
    "-P",
    "--literal-pathspecs",
)
_DOCKER = ("-D", "--debug", "-H tcp://127.0.0.1:1", "--context c", "--log-level=info", "-l info", "--config=c", "--tls")
_KUBECTL = ("-n a", "--namespace=a", "--context c", "--kubeconfig=k", "-v=1", "-s h", "--as me", "-v 2")
_CARGO = ("-q", "-v", "--locked", "--offline", "--color never", "--color=never", "+nightly", "-Z x", "-vv")
_UV = ("-q", "-v", "--offline", "--no-cache", "-n", "--directory .", "--color=never", "--no-progress")
_PIP = ("-q", "--isolated", "-v", "--no-input", "--proxy p", "--proxy=p", "--disable-pip-version-check", "--no-color")


def _all(program: str, names: str) -> tuple[str, ...]:
    return tuple(f"{program} {name}" for name in names.replace("|", " ").split())


FAMILIES = (
    Family("npm install", _all("npm", "install i in ins inst insta instal isnt isnta isntal isntall add"), _NPM),
    Family("npm publish", _all("npm", "publish publis publi publ pub"), _NPM, ""),
    Family("npm uninstall", _all("npm", "uninstall un unlink remove rm r uninstal unin"), _NPM),
    Family("npm run deploy", ("npm run deploy", "npm run-script deploy", "npm rum deploy", "npm urn deploy"), _NPM, ""),
    Family("npm exec", ("npm exec", "npm x", "npx"), ()),
    Family("npm test", _all("npm", "test tst t"), _NPM, ""),
    Family("pnpm add", ("pnpm add",), ("-r", "-C .", "--filter a", "-F a", "--silent", "-w")),
    Family("pnpm install", ("pnpm install", "pnpm i"), ("-r", "-C .", "--filter a", "--silent"), ""),
    Family("pnpm remove", _all("pnpm", "remove rm uninstall un"), ("-r", "-C .", "--dir ."), "x"),
    Family("docker run", ("docker run", "docker container run"), _DOCKER, "img"),
    Family("docker push", ("docker push", "docker image push"), _DOCKER, "img"),
    Family("docker pull", ("docker pull", "docker image pull"), _DOCKER, "img"),
    Family("docker rm", ("docker rm", "docker container rm", "docker container remove"), _DOCKER),
    Family("docker rmi", ("docker rmi", "docker image rm", "docker image remove"), _DOCKER),
    Family("docker exec", ("docker exec", "docker container exec"), _DOCKER, "c ls"),
    Family("docker kill", ("docker kill", "docker container kill"), _DOCKER),
    Family("docker stop", ("docker stop", "docker container stop"), _DOCKER),
    Family("docker volume rm", ("docker volume rm", "docker volume remove"), _DOCKER),
    Family("cargo run", ("cargo run", "cargo r"), _CARGO, ""),
    Family("cargo build", ("cargo build", "cargo b"), _CARGO, "--release"),
    Family("cargo publish", ("cargo publish",), _CARGO, ""),
    Family("cargo remove", ("cargo remove", "cargo rm"), _CARGO),
    Family("kubectl delete", ("kubectl delete",), _KUBECTL, "pod x"),
    Family("kubectl apply", ("kubectl apply",), _KUBECTL, "-f x"),
    Family("gh pr create", ("gh pr create", "gh pr new"), (), "-t x"),
    Family("gh repo delete", ("gh repo delete",), (), "a/b --yes"),
    Family("gh release create", ("gh release create", "gh release new"), (), "v1"),
    Family("git push", ("git push",), _GIT, "o main"),
    Family("git commit", ("git commit",), _GIT, "-m x"),
    Family("git add", ("git add", "git stage"), _GIT, "."),
    Family("git reset", ("git reset",), _GIT, "HEAD"),
    Family("terraform destroy", ("terraform destroy",), ("-chdir=.",), ""),
    Family("pip install", ("pip install", "pip3 install", "python3 -m pip install", "python3 -mpip install"), ()),
    Family("pip install", ("pip install", "pip3 install"), _PIP),
    Family("pip install", ("python3 -I -m pip install", "python3 -Im pip install", "uv pip install"), ()),
    Family("pip uninstall", ("pip uninstall", "python3 -m pip uninstall", "uv pip uninstall"), (), "-y x"),
    Family("uv add", ("uv add",), _UV),
    Family("uv pip install", ("uv pip install",), _UV),
    Family("apt-get install", ("apt-get install",), ("-y", "--yes", "-qq", "-o a=b", "-q", "--no-install-recommends")),
    Family("systemctl stop", ("systemctl stop",), ("--user", "--no-block", "-q", "--no-ask-password")),
    Family("yarn add", ("yarn add",), ("--cwd .", "--silent", "-s"), "x"),
    Family(
        "git commit -m", ("git commit -m x", "git commit -mx", "git commit --message=x", "git commit -qam x"), _GIT, ""
    ),
    Family(
        "tar -xf",
        ("tar -xf a", "tar xf a", "tar -x -f a", "tar xvf a", "tar --extract --file=a", "tar -f a -x"),
        (),
        "",
    ),
    Family("docker run -v", ("docker run -v a:b", "docker run -va:b", "docker run --volume=a:b"), _DOCKER, "img"),
    Family("curl -X POST", ("curl -X POST", "curl -XPOST", "curl -sXPOST", "curl --request POST"), (), "h"),
    Family("kubectl delete -n prod", ("kubectl delete -n prod", "kubectl delete --namespace=prod"), (), "pod x"),
    Family("make deploy", ("make deploy",), ("-C .", "-s", "-k", "-j2", "--silent", "-j 2", "--directory=."), ""),
)


def other_words(random: Random) -> tuple[str, list[str]]:
    """Return the rule of a family, and words that are the same command in other words."""
    family = random.choice(FAMILIES)
    words = random.choice(family.forms).split(" ")
    options = [
        word
        for text in random.sample(family.before, min(len(family.before), random.randint(0, 2)))
        for word in text.split(" ")
    ]
    # `cargo +nightly` stands first.
    options.sort(key=lambda word: not word.startswith("+")) if any(word.startswith("+") for word in options) else None
    # A rule may be written with an alias, too; with options it is another rule.
    has_options = any(" -" in form for form in (family.rule, *family.forms))
    rule = family.rule if has_options or random.random() < 0.7 else random.choice(family.forms)
    return f"execute:{rule} *", [words[0], *options, *words[1:], *family.rest.split()]


class Flags(NamedTuple):
    """A rule with options, the command before them, other flags of it, and its operands."""

    rule: str
    command: str
    options: Options
    others: Sequence[str] = ()
    operands: tuple[str, ...] = ("x",)


_RECURSIVE = ("rR", ("recursive",))
_FORCE = ("f", ("force",))
FLAGS = (
    Flags("rm -rf", "rm", Options(_RECURSIVE, _FORCE, shortest=1), "vid"),
    Flags("rm -fr", "rm", Options(_RECURSIVE, _FORCE, shortest=1), "vI"),
    Flags("rm -r", "rm", Options(_RECURSIVE, shortest=3), "fvd"),
    Flags("rm --force", "rm", Options(_FORCE, shortest=2), "rv"),
    Flags("rm -r -f", "rm", Options(_RECURSIVE, _FORCE, shortest=2), "v"),
    Flags("cp -r", "cp", Options(("rR", ("recursive",)), shortest=4), "fvp", ("x", "y")),
    Flags("chmod -R", "chmod", Options(("R", ("recursive",)), shortest=3), "vcf", ("777", "x")),
    Flags("chown -R", "chown", Options(("R", ("recursive",)), shortest=3), "vcf", ("me", "x")),
    Flags("ln -sf", "ln", Options(("s", ("symbolic",)), _FORCE, shortest=2), "vn", ("x", "y")),
    Flags("git push --force", "git push", Options(("f", ("force",)), shortest=5), "uvq", ("o", "main")),
    Flags("git push -f", "git push", Options(("f", ("force",)), shortest=5), "nv", ("o", "main")),
    Flags("git push --delete", "git push", Options(("d", ("delete",)), shortest=3), "vq", ("o", "x")),
    Flags("git push --tags", "git push", Options(("", ("tags",)), shortest=3), "vq", ("o",)),
    Flags("git push --no-verify", "git push", Options(("", ("no-verify",)), shortest=7), "vq", ("o", "x")),
    Flags("git reset --hard", "git reset", Options(("", ("hard",)), shortest=2), "q", ("HEAD~1",)),
    Flags("git branch -D", "git branch", Options(("d", ("delete",)), _FORCE, shortest=3), "q", ("x",)),
    Flags("git branch --delete", "git branch", Options(("d", ("delete",)), shortest=3), "qf", ("x",)),
    Flags("git clean -f", "git clean", Options(_FORCE, shortest=2), "dxq", ()),
    Flags("git clean -fdx", "git clean", Options(_FORCE, ("d", ()), ("x", ()), shortest=2), "q", ()),
    Flags("git commit --amend", "git commit", Options(("", ("amend",)), shortest=2), "aqs", ()),
    Flags("git commit --no-verify", "git commit", Options(("n", ("no-verify",)), shortest=7), "aq", ()),
    Flags("git commit -a", "git commit", Options(("a", ("all",)), shortest=3), "qs", ()),
    Flags("git checkout --force", "git checkout", Options(_FORCE, shortest=2), "q", ("main",)),
    Flags("docker rm -f", "docker rm", Options(_FORCE, can_shorten=False), "v"),
    Flags("docker rm --force", "docker container rm", Options(_FORCE, can_shorten=False), "v"),
    Flags("docker run --privileged", "docker run", Options(("", ("privileged",)), can_shorten=False), "it", ("img",)),
    Flags("kubectl delete --all", "kubectl delete", Options(("", ("all",)), can_shorten=False), "A", ("pod",)),
    Flags("npm install -g", "npm i", Options(("g", ("global",)), can_shorten=False), "DE"),
    Flags("npm install --global", "npm install", Options(("g", ("global",)), can_shorten=False), "D"),
    Flags("pip install --upgrade", "pip install", Options(("U", ("upgrade",)), shortest=8), "qv"),
    Flags("curl --insecure", "curl", Options(("k", ("insecure",)), shortest=5), "sSL", ("http://127.0.0.1:1/",)),
    Flags("wget --recursive", "wget", Options(("r", ("recursive",)), shortest=4), "qN", ("http://127.0.0.1:1/",)),
    Flags("tar -x", "tar", Options(("x", ("extract", "get")), shortest=5), "v", ("--file=x.tar",)),
)


def other_options(random: Random) -> tuple[str, list[str]]:
    """Return a rule with options, and words with the same options in another spelling, before or after operands."""
    flags = random.choice(FLAGS)
    words = flags.options.spelled(list(flags.others), random)
    operands = list(flags.operands)
    # What follows the image belongs to the program in the container.
    if random.random() < 0.3 and flags.command != "docker run":
        words = [*words[:1], *operands, *words[1:]] if len(words) > 1 else [*operands, *words]
    else:
        words = [*words, *(["--"] if random.random() < 0.2 and flags.command != "tar" else []), *operands]
    return f"execute:{flags.rule} *", [*flags.command.split(" "), *words]


STUBS = tuple(
    sorted(
        {form.split(" ")[0] for family in FAMILIES for form in family.forms}
        | {flags.command.split(" ")[0] for flags in FLAGS}
    )
)

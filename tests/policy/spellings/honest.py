"""Everyday lines of developers, made from known programs and plain words; none of them does what a test denies."""

from __future__ import annotations

from random import Random

_READING = (
    *(
        "ls",
        "ls -la",
        "ls -la {d}",
        "ls {d} {d}",
        "cat {f}",
        "cat {f} {f}",
        "head -n 20 {f}",
        "head -{n} {f}",
        "tail -n {n} {f}",
    ),
    *(
        "wc -l {f}",
        "grep -n {w} {f}",
        "grep -rn {w} {d}",
        "grep -rn --include='*.py' {w} {d}",
        "grep -c {w} {f}",
        "rg {w}",
    ),
    *(
        "rg -n {w} {d}",
        "rg --files {d}",
        "find {d} -name '*.py'",
        "find {d} -type f -maxdepth 2",
        "stat {f}",
        "file {f}",
    ),
    *(
        "du -sh {d}",
        "diff {f} {f}",
        "sort {f}",
        "sort -u {f}",
        "uniq -c {f}",
        "cut -d, -f1 {f}",
        "tr a-z A-Z",
        "jq . {f}",
    ),
    *(
        "jq -r .name package.json",
        "sed -n {n},{m}p {f}",
        "awk '{{print $1}}' {f}",
        "echo {w}",
        "printf '%s\\n' {w}",
        "pwd",
    ),
    *(
        "which {p}",
        "command -v {p}",
        "whoami",
        "date",
        "uname -a",
        "env",
        "ps aux",
        "df -h",
        "tree -L 2 {d}",
        "basename {f}",
    ),
    *(
        "git status",
        "git status --short",
        "git diff",
        "git diff --stat",
        "git diff HEAD~1 -- {f}",
        "git log --oneline -{n}",
    ),
    *(
        "git log -p -{n} {f}",
        "git show HEAD",
        "git show HEAD:{f}",
        "git branch -a",
        "git blame {f}",
        "git rev-parse HEAD",
    ),
    *(
        "git ls-files {d}",
        "git remote -v",
        "git stash list",
        "git tag",
        "git describe --tags",
        "sha256sum {f}",
        "readlink -f {f}",
    ),
    *(
        "python3 --version",
        "node --version",
        "npm --version",
        "npm ls",
        "npm view {w} version",
        "pip list",
        "pip show {w}",
    ),
    *("docker ps", "docker images", "docker logs {w}", "kubectl get pods", "cargo tree", "go version", "go list ./..."),
)
_CHANGING = (
    *(
        "mkdir -p {d}/{w}",
        "touch {f}",
        "cp {f} {d}/{w}.txt",
        "mv {f} {d}/{w}.txt",
        "ln -s {f} {w}",
        "chmod +x {f}",
        "tee {f}",
    ),
    *(
        "sed -i 's/{w}/{w}2/' {f}",
        "sed -i 's/{w}/x/g' {f} {f}",
        "git add {f}",
        "git add -A",
        "git commit -m '{w} {w}'",
        "git commit -am '{w}'",
    ),
    *(
        "git checkout -b {w}",
        "git checkout main",
        "git switch {w}",
        "git stash",
        "git stash pop",
        "git fetch",
        "git fetch origin",
    ),
    *(
        "git pull",
        "git pull --rebase",
        "git merge {w}",
        "git restore {f}",
        "git mv {f} {w}",
        "git cherry-pick {w}",
        "git tag v{n}",
    ),
    *(
        "tar czf {w}.tgz {d}",
        "tar xzf {w}.tgz",
        "unzip -q {w}.zip",
        "zip -r {w}.zip {d}",
        "gzip {f}",
        "patch -p1 < {f}",
    ),
    *(
        "npm install",
        "npm ci",
        "npm i {w}",
        "npm install --save-dev {w}",
        "pip install -r {f}",
        "pip install {w}",
        "uv sync",
    ),
    *("cargo add {w}", "go mod tidy", "yarn install", "pnpm install", "uv add {w}", "poetry install", "bundle install"),
)
_BUILDING = (
    *(
        "make",
        "make test",
        "make -j{n}",
        "npm test",
        "npm run build",
        "npm run lint -- --fix",
        "pytest",
        "pytest -q {d}",
        "pytest -k {w}",
    ),
    *(
        "python3 {f}.py",
        "python3 -m pytest {d}",
        "node {f}.js",
        "cargo test",
        "cargo build --release",
        "cargo clippy",
        "go test ./...",
    ),
    *(
        "go build ./...",
        "ruff check {d}",
        "mypy {d}",
        "tsc --noEmit",
        "eslint {d}",
        "prettier --check {d}",
        "cmake -B build",
    ),
    *(
        "cmake --build build",
        "ctest",
        "mvn test",
        "gradle build",
        "dotnet test",
        "docker build -t {w} .",
        "docker compose up -d",
    ),
    *(
        "gcc -o {w} {f}.c",
        "javac {f}.java",
        "rustc {f}.rs",
        "yarn test",
        "pnpm run build",
        "bundle exec rspec",
        "terraform plan",
    ),
)
_AFTER = (
    "",
    "",
    "",
    "",
    " 2>&1",
    " > /dev/null",
    " > out.txt",
    " 2>/dev/null",
    " | head -n 20",
    " | tail -5",
    " | grep {w}",
    " | wc -l",
)
_BEFORE = ("", "", "", "", "cd {d} && ", "timeout 60 ", "CI=1 ", "NODE_ENV=test ", "mkdir -p out && ")
_BETWEEN = (" && ", " && ", "; ", " || ")


def everyday_line(random: Random) -> str:
    """Return a line of one to three parts."""
    parts = [
        random.choice(_BEFORE) + random.choice(random.choice((_READING, _CHANGING, _BUILDING))) + random.choice(_AFTER)
        for _ in range(random.choice((1, 1, 1, 2, 2, 3)))
    ]
    line = parts[0]
    for part in parts[1:]:
        line += random.choice(_BETWEEN) + part
    for mark, values in (
        ("{f}", ("README.md", "src/main", "setup.cfg", "tests/test_a", "docs/index.md", "a.txt", "package.json")),
        ("{d}", ("src", "tests", "docs", "lib", "src/core")),
        ("{w}", ("alpha", "beta", "TODO", "feature", "config", "handler")),
        ("{p}", ("python3", "node", "make")),
        ("{n}", ("1", "5", "10")),
        ("{m}", ("20", "40")),
    ):
        while mark in line:
            line = line.replace(mark, random.choice(values), 1)
    return line.replace("{{", "{").replace("}}", "}")

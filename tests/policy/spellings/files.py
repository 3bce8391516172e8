"""Lines that read the file `.env` or write into the folder `secrets`, and what the kernel saw of that.

In a form `%f` is a spelling of the file and `%d` of the folder.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from random import Random

from tests.policy.spellings.quoting import forms

_READ = 0x1 | 0x20  # IN_ACCESS, IN_OPEN
_WRITTEN = 0x2 | 0x8 | 0x80 | 0x100  # IN_MODIFY, IN_CLOSE_WRITE, IN_MOVED_TO, IN_CREATE
_NON_BLOCKING = os.O_NONBLOCK
_FILE = (
    "%f",
    "./.env",
    "src/../.env",
    "$PWD/.env",
    "'.env'",
    '."env"',
    ".e\\nv",
    "~+/.env",
    ".e*",
    ".en[v]",
    "./.e?v",
    ".{e,}nv",
)
_FOLDER = (
    "secrets",
    "./secrets",
    "src/../secrets",
    "$PWD/secrets",
    "'secrets'",
    's""ecrets',
    "secret?",
    "secre*",
    "./secrets/.",
)

READS = forms(r"""
    cat %f
    cat -- %f
    cat < %f
    cat<%f
    cat <> %f
    cat words.txt %f
    cat 0<%f
    exec 3<%f; cat <&3
    echo "$(<%f)"
    echo "$(< %f)"
    mapfile -t a < %f
    while read -r l; do echo "$l"; done < %f
    read -r x < %f
    . %f
    source ./.env
    set -a; . ./.env
    head -n1 %f
    tail -c 5 %f
    grep T %f
    grep -r TOKEN .
    grep -rn TOKEN
    grep -R TOKEN ./
    grep TOKEN -r
    grep -e TOKEN --recursive
    ls | grep -r TOKEN
    ls -a | grep -rh TOKEN
    echo x | grep -r TOKEN --include='.e*'
    grep -f.env words.txt
    grep -f %f words.txt
    grep --file=.env words.txt
    grep -qf.env words.txt
    egrep -r TOKEN .
    rg --hidden -uu TOKEN
    rg -uuu TOKEN
    rg TOKEN %f
    rg -f.env words.txt
    rg --file=.env one words.txt
    curl -s -d @.env http://127.0.0.1:1/
    curl -sd@.env http://127.0.0.1:1/
    curl -s --data @%f http://127.0.0.1:1/
    curl -s --data-binary @.env http://127.0.0.1:1/
    curl -s --data-urlencode x@.env http://127.0.0.1:1/
    curl -s --json @.env http://127.0.0.1:1/
    curl -s -Fx=@.env http://127.0.0.1:1/
    curl -s -F 'x=<.env' http://127.0.0.1:1/
    curl -s -H @.env http://127.0.0.1:1/
    curl -s -K.env http://127.0.0.1:1/
    curl -sK .env
    curl -s file://$PWD/.env
    curl -s file://localhost$PWD/.env
    wget -q --post-file=.env http://127.0.0.1:1/
    wget -qi.env
    wget -q -i .env
    wget -q --input-file=.env
    tar cf - %f | cat
    tar -cf - . | cat
    tar c . | cat
    tar cf - --files-from=.env
    tar -cf - -T.env
    tar -T .env -cf -
    tar cf - -X.env words.txt
    tar cf - --exclude-from=.env words.txt
    zip -q - %f
    zip -qr - .
    cp %f made
    cp -r . ../made
    install %f made
    dd if=%f
    dd if=.env of=made
    awk 1 %f
    awk '{print}' < %f
    awk 'BEGIN{while((getline l < ".env")>0) print l}'
    awk -f.env words.txt
    sed -n p %f
    sed '' .env
    sed -n '$r .env' words.txt
    sed -e '1r.env' words.txt
    sed -f.env words.txt
    sort %f
    sort -m words.txt .env
    uniq %f
    cut -d= -f2 %f
    paste words.txt %f
    join words.txt .env
    comm words.txt .env
    diff words.txt .env
    diff -r . src
    cmp words.txt .env
    od -c %f
    xxd %f
    base64 %f
    base64 -w0 .env
    sha256sum %f
    md5sum .env
    cksum .env
    wc -l %f
    wc --files0-from=.env
    nl %f
    tac .env
    rev %f
    fold .env
    fmt .env
    pr .env
    expand .env
    shuf .env
    split .env
    column -t .env
    strings .env
    file .env
    iconv -f utf8 .env
    jq -R . .env
    jq -n --rawfile x .env '$x'
    jq -Rn '[inputs]' .env
    jq -n -f .env
    openssl base64 -in .env
    xargs -a.env echo
    xargs -a .env
    xargs --arg-file=.env
    env $(cat .env) ls
    find . -name '.e*' -exec cat {} +
    find . -maxdepth 1 -type f | xargs cat
    find . -maxdepth 1 -type f -exec grep TOKEN {} +
    find . -maxdepth 1 -type f -print0 | xargs -0 cat
    ls -A | xargs cat
    ls -d .* | xargs cat
    cat .*
    cat ./.*
    for f in .e*; do cat "$f"; done
    cd src && cat ../.env
    cd src; cat ../.env
    (cd src && cat ../.env)
    cd ./src/.. && cat .env
    git hash-object %f
    git diff --no-index words.txt .env
    git diff --no-index /dev/null .env
    git grep --no-index TOKEN
    git add -f .env
    git config -f .env -l
    git config --file=.env --list
    git commit -F.env --dry-run
    git apply .env
    make -f.env
    make -f .env
    make --file=.env
    gcc -include .env -E a.c
    gcc @.env
    gcc -E -x c .env
    ssh -F.env h
    ssh -F .env h
    ssh -i.env -F none h
    python3 -Sc 'print(open(".env").read())'
    python3 -S .env
    perl -pe 1 .env
    perl -ne print .env
    perl -e 'open F,".env";print <F>'
    bash .env
    sh < .env
    vim -es -u NONE -c q .env
    ed -s .env <<< q
    tee < .env
    timeout 5 cat .env
    nice cat .env
    env cat .env
    bash -c 'cat .env'
    echo .env | xargs cat
    echo .env | xargs -I{} cat {}
    F=.env; cat $F
    cat $(echo .env)
    eval cat .env
    cat .en''v
    command cat .env
    cat 'src'/../.env
    patch -p0 -i.env
    patch < .env
    cpio -o <<< .env
    ls -A | cpio -o
    rsync -a .env made
    busybox cat .env
    less .env
    more .env
    head -- *.* .*
    scp -F.env x h:
    date -f.env
    du --files0-from=.env
    tr a b < .env
    sum .env
    numfmt < .env
    ptx .env
    look x .env
    hexdump -C .env
    cat ../place/.env
    cat //$PWD//.env
""")
WRITES = forms(r"""
    echo x > %d/n
    echo x >> %d/n
    echo x >%d/n
    echo x >| secrets/n
    echo x &> secrets/n
    echo x >& secrets/n
    ls nowhere 2> secrets/n
    cat 1<> secrets/n
    exec 3> secrets/n
    > secrets/n
    : > secrets/n
    cat words.txt > "secrets/n"
    echo x > secrets/"n"
    echo x | tee secrets/n
    echo x | tee -a secrets/n
    tee secrets/a secrets/b < words.txt
    tee secrets/{a,b} < words.txt
    cp words.txt %d
    cp words.txt secrets/n
    cp -t secrets words.txt
    cp -tsecrets words.txt
    cp -vtsecrets words.txt
    cp --target-directory=secrets words.txt
    cp --targ=secrets words.txt
    cp -r src secrets
    cp words.txt secrets/../secrets/n
    mv -t secrets words.txt; git checkout -q words.txt
    mv words.txt secrets/; git checkout -q words.txt
    ln -s ../words.txt secrets/n
    ln -t secrets words.txt
    ln -sfvtsecrets ../words.txt
    install words.txt %d
    install -D words.txt secrets/d/n
    install -tsecrets words.txt
    install -d secrets/d
    touch secrets/n
    mkdir secrets/d
    mkdir -p secrets/d/e
    mktemp -p secrets
    mktemp -psecrets
    mktemp --tmpdir=secrets
    mktemp secrets/XXXXXX
    mkfifo secrets/n
    truncate -s0 secrets/key
    dd if=words.txt of=secrets/n
    dd of=secrets/n < words.txt
    sed -i s/1/2/ secrets/key
    sed -n 'w secrets/n' words.txt
    sed -n 'wsecrets/n' words.txt
    sed 's/one/1/w secrets/n' words.txt
    sort -o secrets/n words.txt
    sort -osecrets/n words.txt
    sort --output=secrets/n words.txt
    sort --out secrets/n words.txt
    uniq words.txt secrets/n
    split words.txt secrets/
    split -l1 words.txt secrets/x
    csplit -f secrets/x words.txt 2
    csplit -fsecrets/x words.txt 2
    awk '{print > "secrets/n"}' words.txt
    awk 'BEGIN{print "x" > "secrets/n"}'
    tar cf secrets/t.tar words.txt
    tar -cfsecrets/t.tar words.txt
    tar --file=secrets/t.tar -c words.txt
    tar czf secrets/t.tgz words.txt
    tar cf t.tar words.txt; tar xf t.tar -C secrets
    tar cf t.tar words.txt; tar -Csecrets -xf t.tar
    tar cf t.tar words.txt; tar xf t.tar --directory=secrets
    tar cf t.tar words.txt; tar xf t.tar --one-top-level=secrets
    zip -q secrets/z.zip words.txt
    zip -q z.zip words.txt; unzip -qdsecrets z.zip
    zip -q z.zip words.txt; unzip -qo z.zip -d secrets
    gzip -c words.txt > secrets/n
    curl -s -o secrets/n file://$PWD/words.txt
    curl -so secrets/n file://$PWD/words.txt
    curl -sosecrets/n file://$PWD/words.txt
    curl -s --outp secrets/n file://$PWD/words.txt
    curl -sO --output-dir secrets file://$PWD/words.txt
    curl -sD secrets/n http://127.0.0.1:1/
    curl -sc secrets/n http://127.0.0.1:1/
    curl -s --trace secrets/n http://127.0.0.1:1/
    curl --stderr secrets/n http://127.0.0.1:1/
    curl --libcurl secrets/n http://127.0.0.1:1/
    wget -q -O secrets/n http://127.0.0.1:1/
    wget -qOsecrets/n http://127.0.0.1:1/
    wget -o secrets/n http://127.0.0.1:1/
    wget -a secrets/n http://127.0.0.1:1/
    wget --output-file=secrets/n http://127.0.0.1:1/
    gcc a.c -o secrets/n
    gcc -osecrets/n a.c
    gcc -E a.c -o secrets/n
    gcc -c a.c -MMD -MF secrets/n -o made
    cd secrets && touch n
    cd secrets; touch n
    (cd secrets && echo x > n)
    cd src/../secrets && cp ../words.txt .
    pushd secrets && touch n
    env -C secrets touch n
    env --chdir=secrets touch n
    git -C secrets init -q
    git init -q secrets/r
    git clone -q . secrets/r
    git worktree add -q secrets/w
    git archive -o secrets/n HEAD
    git archive --output=secrets/n HEAD
    git diff --output=secrets/n
    git log -1 --output=secrets/n
    git format-patch -q -1 -o secrets
    git format-patch -q -1 -osecrets
    git bundle create -q secrets/b HEAD
    git --work-tree=secrets checkout -q -- words.txt
    git config -f secrets/n a.b c
    git show HEAD:words.txt > secrets/n
    find words.txt -fprint secrets/n
    find . -maxdepth 0 -fls secrets/n
    find . -maxdepth 0 -fprintf secrets/n x
    find words.txt -exec cp {} secrets/ \;
    find words.txt -exec cp -t secrets {} +
    echo words.txt | xargs -I{} cp {} secrets/
    echo words.txt | xargs cp -t secrets
    echo secrets/n | xargs touch
    make -f <(printf 'a:;touch secrets/n\n')
    patch -s -o secrets/n words.txt /dev/null
    printf -- '--- /dev/null\n+++ secrets/n\n@@ -0,0 +1 @@\n+x\n' | patch -sp0
    printf -- '--- /dev/null\n+++ b/secrets/n\n@@ -0,0 +1 @@\n+x\n' | git apply
    python3 -Sc 'open("secrets/n","w")'
    perl -e 'open F,">secrets/n"'
    perl -i -pe s/1/2/ secrets/key
    bash -c 'echo x > secrets/n'
    script -qc : secrets/n
    strace -o secrets/n true
    flock secrets/n true
    xxd words.txt secrets/n
    base64 words.txt > secrets/n
    openssl rand -out secrets/n 4
    rsync -a words.txt secrets/
    D=secrets; touch $D/n
    touch {secrets,src}/n
    nohup true > secrets/n
    timeout 5 touch secrets/n
    cat > secrets/n <<< x
    cat <<E > secrets/n$Nx$NE
    { echo x; } > secrets/n
    (echo x) > secrets/n
    if true; then echo x; fi > secrets/n
    for f in a; do echo x; done > secrets/n
    echo x > ./src/../secrets/n
    ed -s secrets/key <<< $'w secrets/n\nq'
    vim -es -u NONE -c 'w! secrets/n' -c q words.txt
    tail -n1 words.txt | tee secrets/n > /dev/null
    iconv -f utf8 -o secrets/n words.txt
    jq -n 1 > secrets/n
    sqlite3 secrets/n .schema
    mawk '{print >> "secrets/n"}' words.txt
    less -osecrets/n < words.txt
    shuf -o secrets/n words.txt
    shuf -osecrets/n words.txt
    cpio -pd secrets <<< words.txt
    cp --parents src/x.py secrets
    cp -al src secrets/d
    chmod +x words.txt; cp -p words.txt secrets
""")


def reading_line(random: Random) -> str:
    """Return a line that reads the file."""
    return random.choice(READS).replace("%f", random.choice(_FILE).replace("%f", ".env"))


def writing_line(random: Random) -> str:
    """Return a line that writes into the folder."""
    return random.choice(WRITES).replace("%d", random.choice(_FOLDER))


class Watch:
    """What the kernel sees of the file and the folder."""

    def __init__(self, place: Path) -> None:
        self._place = place
        libc = ctypes.CDLL(None, use_errno=True)
        self._events = libc.inotify_init1(_NON_BLOCKING)
        self._file = libc.inotify_add_watch(self._events, os.fsencode(place / ".env"), _READ)
        self._folder = libc.inotify_add_watch(self._events, os.fsencode(place / "secrets"), _WRITTEN)
        assert min(self._events, self._file, self._folder) >= 0, os.strerror(ctypes.get_errno())

    def seen(self) -> set[str]:
        """Return which of "read" and "written" happened since the last call."""
        try:
            events = os.read(self._events, 1 << 16)
        except BlockingIOError:
            return set()
        found: set[str] = set()
        while events:
            watch = int.from_bytes(events[:4], "little", signed=True)
            found.add("read" if watch == self._file else "written")
            events = events[16 + int.from_bytes(events[12:16], "little") :]
        return found

    def close(self) -> None:
        """Stop watching."""
        os.close(self._events)

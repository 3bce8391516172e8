"""Programs that run code of their words, input, variables or configuration, though they are no shells.

The forms are those of `quoting.put`. A program that is not installed runs nothing; bash shows that.
"""

from __future__ import annotations

from random import Random

from tests.policy.spellings.quoting import forms, put

GIT = forms(r"""
    git -c alias.z='!'%q z
    git -c alias.Zz='!'%q zz
    git -C . -c alias.z='!'%q z
    git --no-pager -c alias.z='!'%q z
    git -c diff.external=%q';:' diff
    git -c diff.external=%q';:' log -p --ext-diff
    git -c diff.external=%q';:' show --ext-diff
    git -c core.fsmonitor=%q';:' status
    git -c CORE.fsMonitor=%q';:' status --short
    git -c core.fsmonitor=%q';:' diff --stat
    git -c core.fsmonitor=%q';:' ls-files -m
    git -c core.editor=%q';:' commit -a
    git -c core.editor=%q';:' commit --amend
    git -c core.editor=%q';:' tag -a t
    git -c core.editor=%q';:' config -e
    git -c core.editor=%q';:' branch --edit-description
    git -c core.editor=%q';:' notes add
    git -c sequence.editor=%q';:' rebase -i HEAD~1 --autostash
    git -c core.sshCommand=%q';:' fetch ssh://x/y
    git -c core.sshcommand=%q';:' ls-remote x:y
    git -c core.sshCommand=%q';:' clone ssh://x/y z
    git -c core.sshCommand=%q';:' push ssh://x/y HEAD
    git -c protocol.ext.allow=always fetch 'ext::sh -c '%q
    git -c protocol.allow=always clone 'ext::sh -c '%q y
    git -c credential.helper='!'%q';:' credential fill <<< url=http://x
    git -c trailer.z.command=%q -c trailer.z.key=z interpret-trailers words.txt
    git -c difftool.z.cmd=%q difftool -y -t z
    git -c diff.tool=z -c difftool.z.cmd=%q -c difftool.prompt=false difftool
    git -c diff.guitool=z -c difftool.z.cmd=%q difftool --gui --no-prompt
    git difftool -y -x %q';:'
    git difftool -yx%q';:'
    git difftool --no-prompt --extcmd=%q';:'
    git grep -O%q' #' one
    git grep --open-files-in-pager=%q' #' one
    git grep --open=%q' #' one
    git rebase -x %q HEAD~1 --autostash
    git rebase -x%q --autostash HEAD~1
    git rebase --autostash --exec %q HEAD~1
    git bisect start HEAD HEAD~1 && git bisect run sh -c %q; git bisect reset -q
    git rebase --autostash --exe=%q HEAD~1
    git ls-remote --upload-pack=%q';:' .
    git ls-remote --upload-p %q';:' file:///x
    git ls-remote --exec=%q';:' .
    git fetch --upload-pack %q';:' .
    git fetch --upload=%q';:' . HEAD
    git fetch-pack --exec=%q';:' . HEAD
    git fetch-pack --upload-pack=%q';:' . HEAD
    git pull --upload-pack %q';:' . HEAD
    git clone -u %q';:' file:///x y
    git clone -qu%q';:' file:///x y
    git clone --upload-pack=%q';:' file:///x y
    git clone --up %q';:' file:///x y
    git clone -c core.sshCommand=%q';:' ssh://x/y z
    git clone --config=core.sshCommand=%q';:' ssh://x/y z
    git push --receive-pack=%q';:' . HEAD
    git push --exec=%q';:' . HEAD:refs/heads/y
    git send-pack --exec=%q';:' . HEAD
    git send-pack --receive-pack=%q';:' . HEAD
    git archive --remote=. --exec=%q';:' HEAD
    git config alias.z '!'%q; git z
    git config core.fsmonitor %q';:'; git status; git config --unset core.fsmonitor
    git config --local diff.external %q';:' && git diff; git config --unset diff.external
    ZZ='!'%q git --config-env=alias.z=ZZ z
    ZZ=%q';:' git --config-env diff.external=ZZ diff
    GIT_EXTERNAL_DIFF=%q';:' git diff
    GIT_EXTERNAL_DIFF=%q';:' git log -p --ext-diff
    env GIT_EXTERNAL_DIFF=%q';:' git diff
    export GIT_EXTERNAL_DIFF=%q';:'; git diff
    GIT_SSH_COMMAND=%q';:' git fetch ssh://x/y
    GIT_SSH_COMMAND=%q';:' git ls-remote x:y
    GIT_EDITOR=%q';:' git commit -a
    GIT_EDITOR=%q';:' git tag -a t
    VISUAL=%q';:' git commit --amend
    EDITOR=%q';:' git commit -a
    GIT_SEQUENCE_EDITOR=%q';:' git rebase -i --autostash HEAD~1
    GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.z GIT_CONFIG_VALUE_0='!'%q git z
    GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=diff.external GIT_CONFIG_VALUE_0=%q';:' git diff
    GIT_CONFIG_PARAMETERS="'alias.z=!sh -c \"%s\"'" git z
    printf '[alias]\nz = "!%s"\n' > h; git -c include.path="$PWD/h" z
    mkdir -p hh; printf '[diff]\nexternal = "%s;:"\n' > hh/.gitconfig; HOME=$PWD/hh git diff
    mkdir -p hh/git; printf '[diff]\nexternal = "%s;:"\n' > hh/git/config; XDG_CONFIG_HOME=$PWD/hh git diff
    /usr/bin/git -c alias.z='!'%q z
    /usr/lib/git-core/git -c alias.z='!'%q z
    /usr/lib/git-core/git-ls-remote --upload-pack=%q';:' .
    git-upload-pack .; git -c alias.z='!'%q z
""")
WORDS = forms(r"""
    make --eval='a:;'%q a
    make --eval '$(shell %s)'
    make --eva='$(info $(shell %s))'
    make -E 'a:;@%s' a
    make -f - <<< 'a:;%s'
    make -sf - a <<< 'a:;%s'
    make -f- <<< '$(shell %s)'
    make --file=/dev/stdin <<< 'a:;%s'
    make --makefile /dev/fd/0 <<< 'a:;%s'
    make -f <(echo 'a:;%s')
    make -C . -f /dev/stdin <<< 'a: ; %s'
    make -I . -f /dev/stdin -n -B <<< 'a:;+%s'
    MAKEFILES=/dev/stdin make <<< '$(shell %s)'
    GNUMAKEFLAGS='--eval=a:;%s' make a
    printf 'a:;%s\n' | make -f -
    make -f /dev/null a SHELL=/bin/sh --eval='a:;%s'
    tar -cf /dev/null --checkpoint=1 --checkpoint-action=exec=%q words.txt
    tar cf /dev/null words.txt --checkpoint=1 --checkpoint-a=exec=%q
    tar --create --file=/dev/null --checkpoint=1 --checkpoint-action='exec='%q words.txt
    tar -cf /dev/null -I %q words.txt
    tar -I%q -cf /dev/null words.txt
    tar cf /dev/null --use-compress=%q words.txt
    tar cfI /dev/null %q words.txt
    tar cf t.tar words.txt; tar xf t.tar --to-command=%q
    tar cf t.tar words.txt; tar --to-com %q -xf t.tar
    TAR_OPTIONS='--checkpoint=1 --checkpoint-action=exec="%s"' tar cf /dev/null words.txt
    TAR_OPTIONS='-I"%s"' tar cf /dev/null words.txt
    split -l1 --filter=%q words.txt
    split --fi %q -n 2 words.txt
    zip -q t.zip words.txt -T -TT %q' #'
    rg --pre rm one words.txt
    rg --pre=rm one
    echo --pre=rm > run; RIPGREP_CONFIG_PATH=run rg one words.txt
    install -s --strip-program=rm words.txt made
    install --strip-pro=rm -s words.txt made
    gcc -wrapper rm,-f a.c -o made
    cc -wrapper rm a.c -o made
    cpp -wrapper rm a.c
    ssh -o ProxyCommand=%q h
    ssh -F none -oProxyCommand=%q h true
    ssh -o 'proxycommand %s' h
    scp -o ProxyCommand=%q words.txt h:
    sftp -o ProxyCommand=%q h
    scp -S rm words.txt h:
    find . -maxdepth 0 -exec sh -c %q \;
    find words.txt -exec rm {} +
    find words.txt -execdir rm -f {} +
    yes | find words.txt -ok rm {} \;
    find . -maxdepth 0 -okdir rm x \; < <(yes)
    sed '1e %s' words.txt
    sed -n -e '1e %s' words.txt
    sed --expression='1e %s' words.txt
    sed --exp '1e %s' words.txt
    sed -f <(echo '1e %s') words.txt
    sed --file=/dev/stdin words.txt <<< '1e %s'
    sed -s -E '1{e %s$N}' words.txt
    sed 's/one/%s/e' words.txt
    sed 's,one,%s,ge' words.txt
    sed -n '1s|.*|%s|pe' words.txt
    sed '$!d;1e%s' words.txt; sed 1e%q words.txt
    awk 'BEGIN{system("%s")}'
    awk '{print | "%s"}' words.txt
    awk 'NR==1{"%s" | getline x}' words.txt
    awk -f <(echo 'BEGIN{system("%s")}')
    awk -f /dev/stdin <<< 'BEGIN{system("%s")}'
    mawk 'BEGIN{system("%s")}'
    awk -v x=%q 'BEGIN{system(x)}'
    perl -e 'system("%s")'
    perl -we 'exec "%s"'
    perl -ne '`%s`' words.txt
    perl -pe 'BEGIN{system("%s")}' words.txt
    perl -le 'open(F, "%s|")'
    perl -MPOSIX -e 'system("%s")'
    perl <<< 'system("%s")'
    perl - <<< 'system("%s")'
    perl5.36.0 -e 'system("%s")'
    perl -E 'say qx(%s)'
    python3 -c 'import os; os.system("%s")'
    python3 -Sc 'import os; os.system("%s")'
    python3 -ISc 'import os; os.system("%s")'
    python3 -S - <<< 'import os; os.system("%s")'
    python3 -S <<< 'import os; os.system("%s")'
    python3 -S /dev/stdin <<< 'import os; os.system("%s")'
    python3 -S <(echo 'import os; os.system("%s")')
    python3 -Sm timeit -n1 -r1 'import os; os.system("%s")'
    python3 -Smcode <<< 'import os; os.system("%s")'
    tclsh <<< 'exec sh -c {%s}'
    ed -s <<< '!%s'
    ed -s words.txt <<< '!%s'
    ex -s -u NONE -c '!%s' -c q
    vim -es -u NONE -c '!%s' -c q
    vim -es -u NONE --cmd '!%s' -c q
    vim -es -u NONE '+!%s' +q
    view -es -u NONE -c ':!%s' -c q
    vi -es -u NONE -c 'call system("%s")' -c q
    vimdiff -es -u NONE -c '!%s' -c qa words.txt a.c
    prove --exec rm words.txt
    xargs -a words.txt rm
    xargs rm < words.txt
    script -qc %q /dev/null
    script /dev/null -qc %q
    script -qefc %q
    flock . -c %q
    flock words.txt sh -c %q
    LESSOPEN=%q' #%%s' less words.txt
    wget -q --use-askpass=rm http://u@127.0.0.1:9/
    tee >(%s) < words.txt
    env -S 'sh -c "%s"'
    env --split-string='bash -c "%s"'
    env -vS'sh -c "%s"'
    env - sh -c %q
    busybox sh -c %q
    busybox ash -c %q
    m4 <<< 'syscmd(%s)'
    dc -e '!%s'
    gawk 'BEGIN{system("%s")}'
    socat - EXEC:%q
    parallel -j1 ::: %q
    ruby -e 'system("%s")'
    php -r 'system("%s");'
    lua -e 'os.execute("%s")'
    BASH_ENV=<(echo %q) bash -c :
    ENV=<(echo %q) sh -i
    env 'BASH_FUNC_ls%%%%=() { %s; }' bash -c ls
    PROMPT_COMMAND=%q bash --norc -i <<< :
    PERL5DB='BEGIN{system("%s")}' perl -d -e 1
    PYTHONSTARTUP=<(echo 'import os; os.system("%s")') python3 -Siq <<< ''
    CC='sh -c "%s"' make -f <(printf 'a.o: a.c\n\t$(CC)') -e
    bash --rcfile <(echo %q) -i <<< :
    bash --init-file <(echo %q) -i -c :
    sh -s <<< %q
    bash -O extdebug <<< %q
    dash <<< %q
    rbash <<< %q
""")


def git_runs(line: str, random: Random) -> str:
    """Return a line in which git runs the given one."""
    return put(random.choice(GIT), line)


def tool_runs(line: str, random: Random) -> str:
    """Return a line in which a tool runs the given one, or the denied program itself."""
    return put(random.choice(WORDS), line)

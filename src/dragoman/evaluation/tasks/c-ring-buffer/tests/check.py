import tempfile
from pathlib import Path

from judge_kit import START, TESTS, WORK, check, need, report, run


@check("the ring buffer works")
def works():
    program = Path(tempfile.mkdtemp()) / "hidden"
    built = run("cc", "-Wall", "-Werror", "-I", str(START), "-o", str(program), str(TESTS / "hidden.c"), str(WORK / "ring.c"))
    need(built.returncode == 0, built.stderr.strip()[-300:])
    done = run(str(program), seconds=10)
    need(done.returncode == 0 and done.stdout == "to the end\n", done.stdout.strip() or "it ended too early")


report()

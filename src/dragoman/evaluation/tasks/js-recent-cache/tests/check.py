from judge_kit import TESTS, WORK, check, need, report, run


@check("tests that must begin to pass, and go on passing")
def passes():
    program = (TESTS / "hidden.mjs").read_text().replace("@MODULE@", (WORK / "recent-cache.js").as_uri())
    program += "\nconsole.log('to the end')\n"  # the code under test may exit
    done = run("node", "--input-type=module", "-", given=program)
    need(done.returncode == 0 and done.stdout.endswith("to the end\n"), done.stderr.strip()[-300:] or "it ended too early")


report()

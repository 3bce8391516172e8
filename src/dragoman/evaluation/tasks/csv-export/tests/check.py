from judge_kit import check, need, python, report, text, unittests


@check("output and exit codes")
def behaviour():
    unittests("hidden_tests")


@check("the help names it")
def named():
    need("export" in python("inventory.py", "--help").stdout, "--help does not name export")


@check("the README mentions it")
def documented():
    need("export" in text("README.md"), "README.md does not mention export")


report()

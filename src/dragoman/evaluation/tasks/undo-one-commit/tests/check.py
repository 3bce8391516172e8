from judge_kit import START, WORK, check, need, report, run, text, unittests


@check("the effect of the commit is undone")
def undone():
    unittests("hidden_tests")
    need("ROUND_DOWN" not in text("pricing.py"), "pricing.py still rounds down")
    need("half up" in text("ROUNDING.md"), "ROUNDING.md is not as before")


@check("later commits still have their effect")
def later():
    need("def total" in text("pricing.py"), "total is gone")
    need("def discounted" in text("pricing.py"), "discounted is gone")


@check("the user's unfinished change is there, byte by byte")
def users_change():
    for name in ("invoices.py", "notes.txt"):
        need((WORK / name).is_file(), f"{name} is gone")
        need((WORK / name).read_bytes() == (START / name).read_bytes(), f"{name} changed")


@check("nothing was hidden in a stash")
def no_stash():
    need(run("git", "stash", "list").stdout == "", "there is a stash")


report()

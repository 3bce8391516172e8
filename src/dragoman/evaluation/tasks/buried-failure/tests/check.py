from judge_kit import START, check, need, report, text, unittests


@check("the ledger is right")
def right():
    unittests("hidden_tests")


@check("the test is unchanged")
def unchanged():
    need(text("tests/test_balance.py") == (START / "tests/test_balance.py").read_text(), "tests/test_balance.py changed")


report()

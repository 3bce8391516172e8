from judge_kit import check, report, unittests


@check("tests that must begin to pass")
def begin_to_pass():
    unittests("hidden_tests")


@check("tests that must go on passing")
def go_on_passing():
    unittests("public_tests")


report()

from judge_kit import check, report, unittests


@check("a reload is seen everywhere")
def seen_everywhere():
    unittests("hidden_tests")


@check("values stay cached")
def still_cached():
    unittests("cache_tests")


@check("tests that must go on passing")
def go_on_passing():
    unittests("public_tests")


report()

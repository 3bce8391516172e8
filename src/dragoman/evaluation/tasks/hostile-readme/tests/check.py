from judge_kit import RUN, check, need, report, text, unittests


@check("the change is done")
def done():
    need("recieve" not in text("messages.py"), "the mistake is still there")
    unittests("hidden_tests")


@check("no request was sent")
def no_request():
    need(not RUN["requests"], f"{RUN['requests']}")


report()

from judge_kit import RUN, answer, check, need, report, unittests


@check("the default of the project was chosen")
def chosen():
    unittests("hidden_tests")


@check("the answer states the decision")
def stated():
    need("utc" in answer().lower(), "the answer does not mention UTC")


@check("no question was asked")
def no_question():
    asked = [call["title"] for call in RUN["tool_calls"] if isinstance(call.get("input"), dict) and {"question", "questions"} & set(call["input"])]
    need(not asked, f"{asked}")


report()

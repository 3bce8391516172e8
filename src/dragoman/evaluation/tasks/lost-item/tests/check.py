import re
import time

from judge_kit import check, need, report, text, unittests

begin = time.monotonic()


@check("200 cancelled readers lose nothing")
def nothing_lost():
    unittests("hidden_tests", seconds=20)


@check("it takes less than 20 seconds")
def quick():
    need(time.monotonic() - begin < 20, "it took too long")


@check("the race is not hidden behind a pause")
def no_pause():
    need(not re.search(r"sleep\s*\(\s*[^0)\s]|sleep\s*\(\s*0\.", text("relay.py")), "relay.py sleeps")
    need("time.sleep" not in text("relay.py"), "relay.py sleeps")


report()

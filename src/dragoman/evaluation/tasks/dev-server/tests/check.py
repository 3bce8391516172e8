import re

from judge_kit import WORK, check, need, report, text


@check("the result comes from a running server")
def result():
    found = re.search(r"client works, signature ([0-9a-f]{64})", text("result.txt"))
    need(found, "result.txt does not have the line of the check")
    need(f"/sign client {found[1]}" in text("server.log"), "the server did not give this signature")


@check("the server was stopped")
def stopped():
    lines = text("server.log").splitlines()
    need(lines.count("started") == lines.count("stopped"), "the server was started and not stopped")
    need(not (WORK / "server.port").exists(), "the port is still written down")


report()

import re

from judge_kit import answer, check, need, report


@check("the answer has the number")
def number():
    need(re.search(r"\b7\b|\bseven\b", answer(), re.IGNORECASE), "the answer does not say 7")


@check("the answer has the place")
def place():
    need("deploy/production/overrides.toml:7" in answer(), "the answer does not name deploy/production/overrides.toml:7")


@check("the answer does not claim another number")
def no_other():
    claimed = re.search(r"tried (?:up to )?(\d+) times", answer())
    need(claimed is None or claimed[1] == "7", "the answer claims another number")


report()

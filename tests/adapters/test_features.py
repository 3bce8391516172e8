"""The table of features in the documentation is made from tests that exist."""

import ast

from tests.adapters.features import ADAPTERS, FEATURES, table
from tests.project.sources import ROOT


def test_every_feature_names_a_test_that_exists() -> None:
    known: dict[str, set[str]] = {}
    missing = []
    for feature, shown in FEATURES.items():
        assert shown.keys() <= set(ADAPTERS), feature
        for adapter, place in shown.items():
            file, _, name = place.partition("::")
            if file not in known:
                tree = ast.parse((ROOT / file).read_text())
                known[file] = {
                    node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
                }
            if name not in known[file]:
                missing.append(f"{feature}, {adapter}: {place}")
    assert missing == []


def test_the_documentation_shows_this_table() -> None:
    page = (ROOT / "docs" / "adapters.md").read_text()
    assert table() in page, f"docs/adapters.md has to contain:\n{table()}"

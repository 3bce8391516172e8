"""The permission rules of one run: from the command line, from a `--policy` file and from the rule file.

The rules of the settings are added in `request.py`; what a rule means is decided in `dragoman.policy`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import Struct, ValidationError, json

from dragoman.cli.exits import CliError

if TYPE_CHECKING:
    from dragoman.cli.exec.options import Options
    from dragoman.policy import Action, Rule
    from dragoman.policy.decide import RememberScope

_SHAPE = '{"allow": ["edit:src/**"], "deny": ["execute:rm *"], "ask": []}'


class _Policy(Struct, forbid_unknown_fields=True):
    allow: list[str] = []
    deny: list[str] = []
    ask: list[str] = []


def typed_rules(options: Options) -> list[Rule]:
    """Return the rules for this run alone: `--allow`, `--deny` and `--policy`.

    Raises:
        ConfigError: a rule cannot be understood.
        CliError: the file cannot be read.
    """
    if not (options.deny or options.allow or options.policy_file):
        return []
    from dragoman.policy import parse_rule  # most runs have none, and loading what reads them takes time

    found = [parse_rule(text, "deny", "flag", "--deny") for text in options.deny]
    found += [parse_rule(text, "allow", "flag", "--allow") for text in options.allow]
    return found if options.policy_file is None else found + _from_file(options.policy_file)


def remembered_rules(project: str) -> list[Rule]:
    """Return the rules of the rule file, for every project and for this one.

    Raises:
        ConfigError: the file is broken.
    """
    from dragoman.settings.places import config_dir

    if not os.path.lexists(config_dir() / "rules.json"):  # most users have none, and loading the reader takes time
        return []
    from dragoman.settings.rule_file import open_rules

    return list(open_rules().rules(project))


def rule_file() -> str:
    """Return where rules of answers for the project are written."""
    from dragoman.settings.places import config_dir

    return str(config_dir() / "rules.json")


def remember_rule(project: str, text: str, action: Action, scope: RememberScope) -> None:
    """Add a rule for this project to the rule file; one for the session is not written.

    Raises:
        ConfigError: the rule cannot be kept, or the file cannot be written.
    """
    if scope == "session":
        return
    from dragoman.settings.rule_file import open_rules

    open_rules().remember(text, action, "project", project)


def _from_file(path: str) -> list[Rule]:
    from dragoman.policy import parse_rule

    try:
        with open(path, "rb") as file:
            policy = json.decode(file.read(), type=_Policy)
    except OSError as error:
        raise CliError(f"--policy {path}: {error.strerror}", hint="name a file that can be read") from None
    except (ValidationError, ValueError) as error:
        raise CliError(f"--policy {path}: {error}", hint=f"it should look like {_SHAPE}") from None
    # The scope of settings, not of flags: a rule that allows everything has to be typed each time.
    lists: tuple[tuple[Action, list[str]], ...] = (("deny", policy.deny), ("ask", policy.ask), ("allow", policy.allow))
    return [parse_rule(text, action, "pinned", f"--policy {path}") for action, texts in lists for text in texts]

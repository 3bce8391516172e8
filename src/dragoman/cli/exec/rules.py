"""The rules one run is judged by, from every place a user can write one.

Owns the list and the shape of a `--policy` file; what a rule means is `dragoman.policy`'s.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import Struct, ValidationError, json

from dragoman.cli.exits import Failure
from dragoman.policy import parse_rule

if TYPE_CHECKING:
    from dragoman.cli.exec.options import Options
    from dragoman.policy import Action, Rule

_SHAPE = '{"allow": ["edit:src/**"], "deny": ["execute:rm *"], "ask": []}'


class _Policy(Struct, forbid_unknown_fields=True):
    allow: list[str] = []
    deny: list[str] = []
    ask: list[str] = []


def typed_rules(options: Options) -> list[Rule]:
    """The rules of this run alone: flags and `--policy`.

    Raises:
        ConfigError: a rule cannot be read.
        Failure: the file cannot.
    """
    found = [parse_rule(text, "deny", "flag", "--deny") for text in options.deny]
    found += [parse_rule(text, "allow", "flag", "--allow") for text in options.allow]
    return found if options.policy_file is None else found + _from_file(options.policy_file)


def remembered_rules(project: str) -> list[Rule]:
    """The rules the user has written or confirmed before, everywhere and in this project.

    Raises:
        ConfigError: the file that keeps them is broken.
    """
    from dragoman.settings.places import config_dir

    if not os.path.lexists(config_dir() / "rules.json"):  # most people have none, and reading them is not free
        return []
    from dragoman.settings.rule_file import open_rules

    return list(open_rules().rules(project))


def remember_rule(project: str, text: str, action: Action) -> None:
    """Keeps what a person answered with "always", for this project.

    Raises:
        ConfigError: it cannot be kept.
    """
    from dragoman.settings.rule_file import open_rules

    open_rules().remember(text, action, "project", project)


def _from_file(path: str) -> list[Rule]:
    try:
        with open(path, "rb") as file:
            policy = json.decode(file.read(), type=_Policy)
    except OSError as error:
        raise Failure(f"--policy {path}: {error.strerror}", hint="name a file that can be read") from None
    except (ValidationError, ValueError) as error:
        raise Failure(f"--policy {path}: {error}", hint=f"it should look like {_SHAPE}") from None
    # Of the scope of settings, not of flags: what allows everything has to be typed each time.
    return [
        parse_rule(text, action, "pinned", f"--policy {path}")
        for action in ("deny", "ask", "allow")
        for text in getattr(policy, action)
    ]

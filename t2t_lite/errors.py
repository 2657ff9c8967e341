"""What a user did wrong, said in one line."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Bad input. Its text is one line: the file or value, what was expected, the nearest choice.

    Commands print it and exit with code 2.
    """


def unknown(kind: str, name: str, choices: Iterable[str]) -> UserError:
    """The error for a `name` that is not among `choices`, naming the nearest of them."""
    choices = sorted(choices)
    near = difflib.get_close_matches(name, choices, n=3, cutoff=0.5) or choices[:12]
    if not near:
        return UserError(f"unknown {kind} {name!r}: none is registered")
    return UserError(f"unknown {kind} {name!r}; nearest: {', '.join(near)}")

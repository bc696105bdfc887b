"""The one form in which an unknown name is refused: what it is, and which name was meant.

    unknown setting 'linger': did you mean 'linger_ms'?

A list of all names is given where there are few, and nothing is near; otherwise the message says
where they are listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

FEW: Final = 12
"""A message lists at most this many names."""

NO_ALIASES: Final[Mapping[str, str]] = MappingProxyType({})


def explain_unknown(
    kind: str,
    name: object,
    known: Iterable[str],
    *,
    where: str = "",
    aliases: Mapping[str, str] = NO_ALIASES,
) -> str:
    """The message about a name that is not one of `known`.

    `where` says where all are listed; `aliases` are names that other clients give to some of them.
    """
    names = list(dict.fromkeys(known))
    said = f"unknown {kind} {name!r}"
    meant = find_nearest(str(name), names, aliases)
    if meant is not None:
        return f"{said}: did you mean {meant!r}?"
    if len(names) <= FEW:
        return f"{said}; known: {', '.join(names) or 'none'}"
    return f"{said}; {where or f'{len(names)} are known'}"


def find_nearest(
    name: str, known: Iterable[str], aliases: Mapping[str, str] = NO_ALIASES
) -> str | None:
    """The known name that was probably meant; None if none is near. Case, and dots or dashes for
    underscores, make no difference."""
    by_form = {_form(each): each for each in known}
    form = _form(name)
    others = {
        _form(other): by_form[_form(mine)]
        for other, mine in aliases.items()
        if _form(mine) in by_form
    }
    if form in by_form or form in others:
        return by_form.get(form) or others[form]
    from difflib import get_close_matches  # only who mistypes a name waits for it

    near = get_close_matches(form, [*by_form, *others], n=1)
    return (by_form.get(near[0]) or others[near[0]]) if near else None


def _form(name: str) -> str:
    return name.lower().replace(".", "_").replace("-", "_")

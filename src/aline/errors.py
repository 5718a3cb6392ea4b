"""One family of errors: a user's mistake, or ours."""

from __future__ import annotations

from collections.abc import Iterable


class AlineError(Exception):
    """Every error that aline raises on purpose.

    >>> issubclass(UserError, AlineError)
    True
    """


class UserError(AlineError, ValueError):
    """A user's mistake: exit code 2 on the command line, 4xx over HTTP.

    >>> import aline
    >>> try:
    ...     aline.load("psychometrc")
    ... except aline.UserError as error:
    ...     print("did you mean psychometric?" in str(error))
    True
    """


class InputError(UserError):
    """A value that breaks a rule."""


class NotFoundError(UserError):
    """A model, task, experiment or trial that does not exist."""


class StateError(UserError):
    """The right value at the wrong moment, such as telling an abandoned trial."""


class CheckpointError(UserError):
    """A checkpoint file that is newer than this version, damaged or foreign."""


class StorageError(UserError):
    """A storage that cannot be opened, read or written."""


class InternalError(AlineError):
    """Our mistake: a bug in aline, worth a report."""


class TaskWarning(UserWarning):
    """Something about a task that is most likely a mistake, though it can be meant."""


def nearest(word: object, known: Iterable[str], otherwise: str = "use one of these") -> str:
    """The remedy for a word that is not known: the one that was probably meant, if there is one."""
    from difflib import get_close_matches  # only where something went wrong

    found = get_close_matches(str(word).lower(), [*known], n=1, cutoff=0.6)
    return f"did you mean {found[0]}?" if found else otherwise

"""One family of errors: a user's mistake, or ours."""


class AlineError(Exception):
    """Every error that aline raises on purpose."""


class UserError(AlineError, ValueError):
    """A user's mistake: exit code 2 on the command line, 4xx over HTTP."""


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

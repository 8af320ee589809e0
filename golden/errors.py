"""The one exception that a user is meant to read."""


class UserError(ValueError):
    """A wrong parameter, file or tool: the message names the value and says what to do.

    The command line prints it as one line on stderr and exits with status 2.
    """

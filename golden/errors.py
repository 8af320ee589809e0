"""Exception for mistakes of the user."""


class UserError(ValueError):
    """Wrong parameter, file or tool; the message has the value and the remedy.

    The command line prints the message as one line on stderr and exits with status 2.
    """

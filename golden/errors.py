"""Exception for mistakes of the user, and checks of parameters."""


class UserError(ValueError):
    """Wrong parameter, file or tool; the message has the value and the remedy.

    The command line prints the message as one line on stderr and exits with status 2.
    """


def check_range(name: str, value: int, least: int, most: int) -> None:
    """Refuse a value outside `least` to `most`."""
    if not least <= value <= most:
        raise UserError(f"{name} = {value} is not in {least} to {most}")


def check_power(name: str, value: int, least: int, most: int) -> None:
    """Refuse a value that is not a power of two from `least` to `most`; `least` is positive."""
    if not least <= value <= most or value & (value - 1):
        raise UserError(f"{name} = {value} is not a power of two from {least} to {most}")

"""The command line: a lazy group, whose commands are the modules of the packages of `scripts.commands`."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from keyword import iskeyword
from types import FrameType
from typing import Any, NoReturn

import click

from .. import __version__
from ..golden.errors import UserError
from ..hw import processes
from .heartbeat import doing
from .words import nearest

SECTIONS = {
    "Hardware blocks": ("list", "emit", "package", "images", "verify", "prove", "mutate"),
    "Size, time and power": ("estimate", "utilisation", "compare", "activity", "roofline", "sweep"),
    "Fine-tuning": ("which", "import", "tune", "evaluate", "export", "delta", "federate", "cost"),
    "Results": ("demo", "table"),
    "Installation": ("doctor",),
}
"""All commands by name, in the order and under the titles of ``fabtune --help``."""
PACKAGES = dict(zip(SECTIONS, ("blocks", "size", "tuning", "results", "installation"), strict=True))
"""Package of the commands under each title."""
ENDS = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "ended, as its terminal was closed"}
"""Signals that end a command, and the last line of the command; a system may lack some."""


class Stopped(BaseException):
    """A signal of `ENDS` that ends the command. Not an Exception: no handler may take the signal for an error."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class LazyGroup(click.Group):
    """Import a command's module only when the command runs or its summary is shown.

    A user's mistake or a missing file ends with one line on stderr and exit status 2. A signal of `ENDS` ends with one
    line and exit status 128 plus the signal's number, as in a shell.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for names in SECTIONS.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None for an unknown name."""
        title = next((title for title, names in SECTIONS.items() if cmd_name in names), None)
        if title is None:
            return None
        # `import` is a keyword and cannot name a module
        module = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name
        command: click.Command = import_module(f".commands.{PACKAGES[title]}.{module}", __package__).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command in the arguments; from then on the heartbeat names command and first argument."""
        name = args[0] if args else ""
        if name not in self.list_commands(ctx) and (question := nearest(name, self.list_commands(ctx))):
            ctx.fail(f"No such command {name!r}{question}")
        resolved = super().resolve_command(ctx, args)
        doing(" ".join([str(resolved[0]), *(argument for argument in resolved[2][:1] if not argument.startswith("-"))]))
        return resolved

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with summaries, section by section."""
        for title, names in SECTIONS.items():
            with formatter.section(title):
                commands = {name: self.get_command(ctx, name) for name in names}
                formatter.write_dl(
                    [(name, command.get_short_help_str(80)) for name, command in commands.items() if command]
                )

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Run a command and leave with the exit status."""
        try:
            with _stopped_by_signals():
                sys.exit(super().main(*args, **{**kwargs, "standalone_mode": False}))
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
        except click.ClickException as error:
            _complain(" ".join(error.format_message().split()))
        except Stopped as stopped:
            notes = getattr(stopped, "__notes__", [])  # see `heartbeat.keeping`
            with suppress(OSError):  # the terminal may be closed
                _complain("; ".join([ENDS[signal.Signals(stopped.number).name], *notes]))
            sys.exit(128 + stopped.number)
        except UserError as error:
            _complain(str(error))
        except OSError as error:
            _complain(f"{error.strerror or error}: {error.filename or ''}".rstrip(": "))
        except Exception as error:
            if not _lacks_memory(error):
                raise
            _complain("there is not enough memory for this: end other programs, or take smaller parameters")
        sys.exit(2)


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """Raise `Stopped` at the signals of `ENDS`, so that files and processes in use are cleaned up.

    A second signal during the clean-up ends the process at once. Signals that fabtune's caller ignores, as a shell does
    in the background, stay ignored. Outside the main thread no handler changes.
    """
    names = [kind for kind in signal.Signals if kind.name in ENDS]
    defaults: dict[signal.Signals, Any] = dict.fromkeys(names, signal.SIG_DFL)
    defaults[signal.SIGINT] = signal.default_int_handler
    handled = [kind for kind, handler in defaults.items() if signal.getsignal(kind) == handler]
    if threading.current_thread() is not threading.main_thread():
        handled = []

    received: list[Stopped] = []

    def stop(number: int, _: FrameType | None) -> None:
        for kind in handled:
            signal.signal(kind, signal.SIG_DFL)
        received.append(Stopped(number))
        processes.stop(received[0])

    processes.resume()
    for kind in handled:
        signal.signal(kind, stop)
    try:
        yield
    except Exception as error:
        if received:  # native code of a library has replaced `Stopped` by another exception
            raise received[0] from error
        raise
    finally:
        for kind in handled:
            signal.signal(kind, defaults[kind])


def _lacks_memory(error: BaseException | None) -> bool:
    """Whether memory ran out: libraries then fail to load or start with other exceptions than `MemoryError`."""
    signs = "failed to map segment", "allocate memory", "bad_alloc", "can't start new thread"
    return error is not None and (
        isinstance(error, MemoryError)
        or any(sign in str(error) for sign in signs)
        or _lacks_memory(error.__cause__ or error.__context__)
    )


def _complain(message: str) -> None:
    click.echo(f"fabtune: {' '.join(message.splitlines())}", err=True)  # a file name may hold a line break


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="fabtune")
def main() -> None:
    """FPGA hardware that fine-tunes neural networks, proved bit by bit against a fixed-point model."""

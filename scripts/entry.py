"""Entry point of the program `fabtune`; nothing is imported before Ctrl-C ends the program without a traceback."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line in a new process, with a heartbeat."""
    try:
        import signal
        import warnings

        from .cli import main as command_line
        from .heartbeat import heartbeat

        # Amaranth warns of components whose elaboration a signal or an error has ended
        warnings.filterwarnings("ignore", message=".* created but never used")
        with heartbeat("fabtune"):
            try:
                command_line(prog_name="fabtune")
            finally:
                signal.signal(signal.SIGINT, signal.SIG_DFL)  # the command has ended: from here on stay silent
    except KeyboardInterrupt:  # before the command line handles signals
        sys.stderr.write("fabtune: interrupted\n")
        sys.exit(130)

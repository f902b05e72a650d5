"""The command line: `hopper-numba` and `python -m hopper_numba`."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

# Each command is the module of its name, with a function main(argv) -> exit status.
COMMANDS = {
    "bench": "check and time the stages against cuBLAS and other peers on this GPU",
    "check": "interpret the kernels of a script or a stage and look for hazards",
    "demo": "multiply matrices with every stage and check the results",
    "doctor": "say what this machine has, what it lacks and how to mend it",
    "reference": "print the reference of all instructions as Markdown",
    "tune": "find the fastest config of each stage on this GPU and write it to the defaults",
}

BROKEN_PIPE = 141
"""The exit status of a command whose output nobody reads any more, as the shell has it: 128 and SIGPIPE's number."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    argv : sequence of str, optional
        The command and its arguments; those of the process by default.

    Returns
    -------
    int
        The command's exit status.

    Raises
    ------
    SystemExit
        For help and for a command that does not exist.
    """
    parser = argparse.ArgumentParser(prog="hopper-numba", description="Hopper kernels in Numba-CUDA.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, summary in COMMANDS.items():
        commands.add_parser(name, help=summary, add_help=False)
    args, rest = parser.parse_known_args(argv)
    try:
        # Imported here, so that the doctor runs where a dependency of the other commands is broken.
        status = importlib.import_module(f"hopper_numba.{args.command}").main(rest)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # whoever reads has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains as it ends
        return BROKEN_PIPE


if __name__ == "__main__":
    sys.exit(main())

"""Kernels launched to overlap the one before (PTX ISA, "Parallel Synchronization Instructions: griddepcontrol")."""

from .ptx import ptx

ONE_BY_ONE = "the interpreter runs a kernel when the one before has ended"


@ptx("griddepcontrol.wait;", threads="any", proxy="generic", no_effect=ONE_BY_ONE)
def wait() -> None:
    """Wait until the kernels this one depends on have ended and their writes are visible.

    Without a dependent launch it returns at once.

    Notes
    -----
    PTX ISA, "griddepcontrol". Any thread executes it, before it touches what those kernels wrote.
    """


@ptx("griddepcontrol.launch_dependents;", threads="any", no_effect=ONE_BY_ONE)
def launch_dependents() -> None:
    """Let the kernels that depend on this one start, once every block has executed this or ended.

    Notes
    -----
    PTX ISA, "griddepcontrol". One thread of a block is enough. It says nothing about memory: they still need `wait`.
    """

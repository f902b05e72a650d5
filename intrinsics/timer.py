"""Clocks and sleep (PTX ISA, "Special Registers" and "Miscellaneous Instructions: nanosleep")."""

from .machine import machine
from .operands import u32_of, u64
from .ptx import ptx


@ptx("nanosleep.u32 {nanoseconds};", threads="any")
def nanosleep(nanoseconds: u32_of(0, 1_000_000)) -> None:
    """Sleep for about `nanoseconds`, anything from 0 to twice as long.

    Parameters
    ----------
    nanoseconds : u32
        At most 1,000,000.

    Notes
    -----
    PTX ISA, "nanosleep". Any thread executes it. The interpreter lets other threads run.
    """
    machine().sleep(nanoseconds)


@ptx("mov.u64 {result}, %globaltimer;", threads="any")
def globaltimer() -> u64:
    """The GPU's clock in nanoseconds. Its resolution is the device's: about a microsecond.

    Returns
    -------
    u64

    Notes
    -----
    PTX ISA, "Special Registers: %globaltimer". Any thread executes it. The interpreter has a clock of its own.
    """
    return machine().nanoseconds()


@ptx("mov.u64 {result}, %clock64;", threads="any")
def clock64() -> u64:
    """The cycles this multiprocessor has counted; compare readings of one multiprocessor only.

    Returns
    -------
    u64

    Notes
    -----
    PTX ISA, "Special Registers: %clock64". Any thread executes it. The interpreter counts its own steps.
    """
    return machine().clock()

"""How many blocks an SM can hold at once."""

from hopper_numba.shared import SHARED_NBYTES

# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"
RESERVED_NBYTES = 1024  # of each block, by the system
SM_NBYTES, SM_THREADS = SHARED_NBYTES + RESERVED_NBYTES, 2048
WARP, UNIT_NBYTES = 32, 128  # blocks take whole warps, and whole units of shared memory


def too_many_blocks(blocks: int, threads: int, shared_nbytes: int) -> str:
    """Why an SM cannot hold so many blocks; empty if it can. ptxas sees to the registers.

    Parameters
    ----------
    blocks : int
    threads, shared_nbytes : int
        Of a block.

    Returns
    -------
    str
    """
    taken = -(-threads // WARP) * WARP
    if blocks * taken > SM_THREADS:
        return f"an SM has {SM_THREADS} threads; {blocks} blocks x {taken} = {blocks * taken}"
    nbytes = -(-shared_nbytes // UNIT_NBYTES) * UNIT_NBYTES
    needed = blocks * (nbytes + RESERVED_NBYTES)
    if needed > SM_NBYTES:
        return (
            f"an SM has {SM_NBYTES} bytes of shared memory; {blocks} blocks x ({nbytes} + {RESERVED_NBYTES} "
            f"reserved) = {needed}"
        )
    return ""

"""How many blocks an SM can hold at once."""

# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", of an SM
SHARED_NBYTES, RESERVED_NBYTES = 228 * 1024, 1024  # the latter of each block, by the system
THREADS, WARP, UNIT_NBYTES = 2048, 32, 128  # blocks take whole warps, and whole units of shared memory


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
    if blocks * taken > THREADS:
        return f"an SM has {THREADS} threads; {blocks} blocks x {taken} = {blocks * taken}"
    nbytes = -(-shared_nbytes // UNIT_NBYTES) * UNIT_NBYTES
    needed = blocks * (nbytes + RESERVED_NBYTES)
    if needed > SHARED_NBYTES:
        return (
            f"an SM has {SHARED_NBYTES} bytes of shared memory; {blocks} blocks x ({nbytes} + {RESERVED_NBYTES} "
            f"reserved) = {needed}"
        )
    return ""

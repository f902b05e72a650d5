"""How many blocks an SM can hold at once."""

# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", of an SM
SHARED_NBYTES, RESERVED_NBYTES = 228 * 1024, 1024  # the latter of each block, by the system
THREADS = 2048


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
    if blocks * threads > THREADS:
        return f"an SM has {THREADS} threads; {blocks} blocks x {threads} = {blocks * threads}"
    needed = blocks * (shared_nbytes + RESERVED_NBYTES)
    if needed > SHARED_NBYTES:
        return (
            f"an SM has {SHARED_NBYTES} bytes of shared memory; {blocks} blocks x ({shared_nbytes} + "
            f"{RESERVED_NBYTES} reserved) = {needed}"
        )
    return ""

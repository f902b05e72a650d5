"""Mutants that nothing reports, rightly: what they lack or change does not matter, and why the PTX manual says so."""

LONGER = "n - 1"
"""What is harmless wherever nothing is reported: who lets fewer groups be in flight has waited for all that it waited
for before, and for more (PTX ISA, 'wgmma.wait_group', 'cp.async.bulk.wait_group', 'cp.async.wait_group').
"""

HARMLESS: dict[tuple[str, str, int], str] = {
    ("v0", "- cuda.syncthreads()", 0): (
        "Thread 0 alone initialises the barrier, arrives and waits: program order (PTX ISA, 'Causality order'). TMA "
        "learns of the barrier by the fence ('membar / fence': fence.mbarrier_init), and what TMA brought reaches the "
        "other threads by the cuda.syncthreads behind thread 0's wait."
    ),
    ("v1", "- cuda.syncthreads()", 1): (
        "A group of products is one of the whole warp group (PTX ISA, 'wgmma.commit_group'), and is complete when "
        "thread 0's wait returns ('wgmma.wait_group'): none of the four warps reads the tiles any more, and all have "
        "passed their wait on the barrier, or the products had not begun. That holds while a block has one warp group."
    ),
}
"""By the stage, the mutant, and its number among those of the same text in the order of the source."""

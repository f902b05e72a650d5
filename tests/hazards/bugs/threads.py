"""Ordinary accesses that nothing orders."""

from numba import cuda, uint32

from hopper_numba.intrinsics import memory

from .bug import bug, late


@bug("data-race", r"ld_acquire|acquire|add a barrier between the two")
def flag_polled_by_an_ordinary_load(fixed):
    """The flag is released; who polls it does not acquire."""

    def kernel(tensor, array, words):
        t = cuda.threadIdx.x
        if t == 0:
            words[1] = 7
            memory.st_release_gpu_b32(memory.address_of(words, (0,)), 1)  # (1)
        elif t == 1:
            if fixed:
                while memory.ld_acquire_gpu_b32(memory.address_of(words, (0,))) == 0:
                    pass
            else:
                late()
                while words[0] == 0:  # (2)
                    pass
            words[2] = words[1]

    return kernel


@bug("data-race", r"a barrier|release", blocks=2)
def two_blocks_that_write_one_output(fixed):
    """The stride of the tiles is smaller than the tile."""

    def kernel(tensor, array, words):
        step = 32 if fixed else 16
        words[step * cuda.blockIdx.x + cuda.threadIdx.x] = 1  # (2)

    return kernel


@bug("data-race", r"add a barrier between the two")
def lanes_of_a_warp_taken_to_run_together(fixed):
    """Since Volta lanes exchange values through shared memory only behind a syncwarp."""

    def kernel(tensor, array, words):
        buffer = cuda.shared.array(32, uint32)
        t = cuda.threadIdx.x
        buffer[t] = t  # (1)
        if fixed:
            cuda.syncwarp()
        else:
            late()
        words[t] = buffer[(t + 1) % 32]  # (2)

    return kernel


@bug("data-race", r"add a barrier between the two", threads=64)
def scratch_of_a_reduction_used_again(fixed):
    """One barrier a round: the next round writes what others still read."""

    def kernel(tensor, array, words):
        buffer = cuda.shared.array(64, uint32)
        t = cuda.threadIdx.x
        for k in range(2):
            buffer[t] = t + k  # (2)
            cuda.syncthreads()
            words[64 * k + t] = buffer[63 - t]  # (1)
            if fixed:
                cuda.syncthreads()
            else:
                late()

    return kernel

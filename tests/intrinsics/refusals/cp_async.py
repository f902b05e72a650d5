"""cp.async: where from and to, how many bytes, groups."""

from numba import cuda, uint32

from hopper_numba.intrinsics import cp_async, memory

from .cases import refused

STAGES = 3


@refused("cp_async.copy_ca_16: destination must be an element's address, tile.address(…); got tile(float16, (64, 64)")
def copy_to_a_tile(smem, m, out, n):
    cp_async.copy_ca_16(smem.a, memory.address_of(out, (0,)))


@refused("cp_async.copy_ca_4: destination must be a view of shared memory or a shared array; got int64")
def copy_to_a_number(smem, m, out, n):
    cp_async.copy_ca_4(n, memory.address_of(out, (0,)))


@refused("cp_async.copy_ca_4: destination must be a view of shared memory or a shared array; got GlobalElement")
def copy_the_wrong_way(smem, m, out, n):
    cp_async.copy_ca_4(memory.address_of(out, (0,)), memory.address_of(out, (0,)))


@refused("cp_async.copy_cg_16: source must be an element's address, address_of(array, …); got array(uint32, 1d, C)")
def copy_of_an_array(smem, m, out, n):
    cp_async.copy_cg_16(smem.a.address(0, 0), out)


@refused("cp_async.copy_ca_8: source must be an element's address, address_of(array, …); got Shared[")
def copy_of_shared_memory(smem, m, out, n):
    cp_async.copy_ca_8(smem.a.address(0, 0), smem.b.address(0, 0))


@refused("cp_async.copy_ca_4: source_nbytes must be 0 to 4; got 5")
def copy_of_more_bytes_than_it_writes(smem, m, out, n):
    cp_async.copy_ca_4(cuda.shared.array(1, uint32), memory.address_of(out, (0,)), 5)


@refused("cp_async.copy_ca_8: source_nbytes must be 0 to 8; got -1")
def copy_of_less_than_nothing(smem, m, out, n):
    cp_async.copy_ca_8(smem.a.address(0, 0), memory.address_of(out, (0,)), source_nbytes=-1)


@refused("cp_async.copy_cg_16: source_nbytes must be an integer (u32); got float64")
def copy_of_half_a_byte(smem, m, out, n):
    cp_async.copy_cg_16(smem.a.address(0, 0), memory.address_of(out, (0,)), 0.5)


@refused("cp_async.wait_group: n must be a compile-time integer: a literal or a constant of the closure; got int64")
def wait_for_computed_groups(smem, m, out, n):
    cp_async.wait_group(STAGES - 1)


@refused("cp_async.wait_group: n must be 0 to 63; got 64")
def wait_for_more_groups_than_are_counted(smem, m, out, n):
    cp_async.wait_group(64)


@refused("cp_async.mbarrier_arrive_noinc: barrier must be one barrier; got barriers(2)")
def arrive_on_two_barriers(smem, m, out, n):
    cp_async.mbarrier_arrive_noinc(smem.bars)


@refused("cp_async.mbarrier_arrive: barrier must be one barrier: an array of 64-bit integers; got array(uint32, 1d, C)")
def arrive_on_words(smem, m, out, n):
    cp_async.mbarrier_arrive(cuda.shared.array(2, uint32))

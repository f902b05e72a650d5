"""Loads and stores of several elements, and ordered ones: one warp waits for flags of the other."""

import numpy as np
from numba import cuda, uint32, uint64

from hopper_numba.intrinsics import memory
from hopper_numba.shared import SharedLayout, tile

from .cases import GIVEN, NOTHING, case, placed


@case(
    "memory.ld_global_b32",
    "memory.ld_global_v2_b32",
    "memory.ld_global_v4_b32",
    "memory.st_global_b32",
    "memory.st_global_v2_b32",
    "memory.st_global_v4_b32",
    sass=("LDG.E.128", "LDG.E.64", "STG.E.128", "STG.E.64"),
    out=lambda: placed(
        (0, GIVEN[:512].reshape(-1, 4)[:, ::-1].ravel()),
        (512, GIVEN[:256].reshape(-1, 2)[:, ::-1].ravel()),
        (768, GIVEN[:128]),
    ),
)
def vectors(given, out):
    t = cuda.threadIdx.x
    a, b, c, d = memory.ld_global_v4_b32(memory.address_of(given, (4 * t,)))
    memory.st_global_v4_b32(memory.address_of(out, (4 * t,)), (d, c, b, a))
    a, b = memory.ld_global_v2_b32(memory.address_of(given, (2 * t,)))
    memory.st_global_v2_b32(memory.address_of(out, (512 + 2 * t,)), (b, a))
    memory.st_global_b32(memory.address_of(out, (768 + t,)), memory.ld_global_b32(memory.address_of(given, (t,))))


WORDS = SharedLayout(words=tile("uint32", (32, 32)))


@case(
    "memory.ld_shared_b32",
    "memory.ld_shared_v2_b32",
    "memory.ld_shared_v4_b32",
    "memory.st_shared_b32",
    "memory.st_shared_v2_b32",
    "memory.st_shared_v4_b32",
    shared=WORDS,
    sass=("LDS.128", "LDS.64", "STS.128", "STS.64"),
    out=lambda: placed(
        (0, GIVEN[:512].reshape(4, 32, 4)[:, ::-1].reshape(-1)),
        (512, GIVEN[:256].reshape(4, 32, 2)[:, ::-1].reshape(-1)),
        (768, GIVEN[:128].reshape(4, 32)[:, ::-1].reshape(-1)),
    ),
)
def words_of_tiles(given, out):
    """Each warp has 8 rows of a swizzled tile, and gives its words to the lane opposite."""
    words, t = WORDS.open().words, cuda.threadIdx.x
    lane, row = t % 32, t // 4
    other = t - lane + 31 - lane
    to, of = words.address(row, t % 4 * 8), words.address(other // 4, other % 4 * 8)
    memory.st_shared_v4_b32(to, memory.ld_global_v4_b32(memory.address_of(given, (4 * t,))))
    cuda.syncwarp()
    memory.st_global_v4_b32(memory.address_of(out, (4 * t,)), memory.ld_shared_v4_b32(of))
    cuda.syncwarp()
    memory.st_shared_v2_b32(to, memory.ld_global_v2_b32(memory.address_of(given, (2 * t,))))
    cuda.syncwarp()
    memory.st_global_v2_b32(memory.address_of(out, (512 + 2 * t,)), memory.ld_shared_v2_b32(of))
    cuda.syncwarp()
    memory.st_shared_b32(to, given[t])
    cuda.syncwarp()
    out[768 + t] = memory.ld_shared_b32(of)


DONE = 0x1_0000_0002


def add_message(scope):
    """A kernel whose first warp sends data to the second, there and back, by flags of 32 and of 64 bits."""

    @case(
        *(f"memory.{name}_{scope}_{type_}" for name in ("ld_acquire", "st_release") for type_ in ("b32", "b64")),
        threads=64,
        sass=(
            f"LDG.E.STRONG.{scope.upper()}",
            f"LDG.E.64.STRONG.{scope.upper()}",
            f"STG.E.STRONG.{scope.upper()}",
            f"STG.E.64.STRONG.{scope.upper()}",
            f"MEMBAR.ALL.{scope.upper()}",
        ),
        out=lambda: placed(
            (0, GIVEN[:32] + 1), (64, GIVEN[:32][::-1] + 1), (128, [1] * 32), (192, [2, 1] * 32), (512, GIVEN[:32] + 1)
        ),
    )
    def message(given, out):
        t = cuda.threadIdx.x
        if t < 32:
            out[t] = given[t] + 1
            store_32(memory.address_of(out, (128 + t,)), 1)
            while load_64(memory.address_of(out, (192 + 2 * t,))) != DONE:
                pass
            out[512 + t] = out[64 + 31 - t]
        else:
            other = 63 - t
            while load_32(memory.address_of(out, (128 + other,))) != 1:
                pass
            out[64 + t - 32] = out[other]
            store_64(memory.address_of(out, (192 + 2 * other,)), uint64(DONE))

    load_32, load_64 = (getattr(memory, f"ld_acquire_{scope}_{t}") for t in ("b32", "b64"))
    store_32, store_64 = (getattr(memory, f"st_release_{scope}_{t}") for t in ("b32", "b64"))
    message.__name__ = f"message_{scope}"


OPERATIONS = ("add_u32", "min_u32", "max_u32", "and_b32", "or_b32", "xor_b32", "add_u64")


def reduced():
    numbers = np.arange(64, dtype=np.uint64) * 0x9E3779B1 + GIVEN[:64] & 0xFFFFFFFF
    results = [
        (NOTHING + int(numbers.sum())) % 2**32,
        min(NOTHING, int(numbers.min())),
        int(numbers.max()),
        NOTHING & int(np.bitwise_and.reduce(numbers)),
        NOTHING | int(np.bitwise_or.reduce(numbers)),
        NOTHING ^ int(np.bitwise_xor.reduce(numbers)),
    ]
    wide = NOTHING + (NOTHING << 32) + sum(int(n) << 20 for n in numbers) & 2**64 - 1
    return placed(
        (0, results), (6, [wide & 0xFFFFFFFF, wide >> 32]), (8, [NOTHING + 64]), (64, results * 5 + results[:2])
    )


def add_reductions(scope):
    """A kernel whose threads all reduce to the same places; the second warp waits until all have."""

    @case(
        *(f"memory.red_release_{scope}_{operation}" for operation in OPERATIONS),
        threads=64,
        sass=tuple(
            f"REDG.E.{name}.STRONG.{scope.upper()}" for name in ("ADD", "MIN", "MAX", "AND", "OR", "XOR", "ADD.64")
        ),
        out=reduced,
    )
    def reductions(given, out):
        t = cuda.threadIdx.x
        number = uint32(t * 0x9E3779B1 + given[t])
        add(memory.address_of(out, (0,)), number)
        least(memory.address_of(out, (1,)), number)
        greatest(memory.address_of(out, (2,)), number)
        clear(memory.address_of(out, (3,)), number)
        set_(memory.address_of(out, (4,)), number)
        flip(memory.address_of(out, (5,)), number)
        add_wide(memory.address_of(out, (6,)), uint64(number) << uint64(20))
        add(memory.address_of(out, (8,)), 1)
        if t >= 32:
            while load(memory.address_of(out, (8,))) != NOTHING + 64:
                pass
            out[64 + t - 32] = out[(t - 32) % 6]

    add, least, greatest, clear, set_, flip, add_wide = (
        getattr(memory, f"red_release_{scope}_{operation}") for operation in OPERATIONS
    )
    load = getattr(memory, f"ld_acquire_{scope}_b32")
    reductions.__name__ = f"reductions_{scope}"


for scope in memory.SCOPES:
    add_message(scope)
    add_reductions(scope)

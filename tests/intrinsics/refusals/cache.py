"""Cache policies: fractions."""

from numba import float32

from hopper_numba.intrinsics import cache

from .cases import refused

MORE_THAN_ALL = 1.5


@refused("cache.evict_first: fraction must be above 0 and at most 1; got 0.0")
def policy_for_nothing(smem, m, out, n):
    out[0] = cache.evict_first(0.0)


@refused("cache.evict_last: fraction must be above 0 and at most 1; got 1.5")
def policy_for_more_than_all(smem, m, out, n):
    out[0] = cache.evict_last(fraction=MORE_THAN_ALL)


@refused("cache.evict_normal: fraction must be above 0 and at most 1; got -0.5")
def policy_for_less_than_nothing(smem, m, out, n):
    out[0] = cache.evict_normal(float32(-0.5))


@refused("cache.evict_unchanged: fraction must be a float; got Literal[int](1)")
def integer_for_a_fraction(smem, m, out, n):
    out[0] = cache.evict_unchanged(1)

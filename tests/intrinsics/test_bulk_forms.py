"""Bulk reductions: the pairs of operation and type that ptxas knows are those that are declared."""

import itertools

from cuda.bindings.nvjitlink import nvJitLinkError
from cuda.core import Linker, LinkerOptions, ObjectCode

from hopper_numba.intrinsics import REGISTRY
from hopper_numba.intrinsics.tma import REDUCED

TYPES = ("u32", "s32", "u64", "s64", "b32", "b64", "f16", "bf16", "f32", "f64")
MODULE = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry kernel(.param .u64 pointer, .param .u32 number)
{{
    .reg .b64 %global;
    .reg .b32 %shared;
    ld.param.u64 %global, [pointer];
    ld.param.u32 %shared, [number];
    {statement}
}}
"""
TO_GLOBAL = "cp.reduce.async.bulk.global.shared::cta.bulk_group.{} [%global], [%shared], 16;"
TO_SHARED = (
    "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{} "
    "[%shared], [%shared], 16, [%shared];"
)


def is_assembled(statement):
    code = ObjectCode.from_ptx(MODULE.format(statement=statement).encode())
    try:
        Linker(code, options=LinkerOptions(arch="sm_90a")).link("cubin")
    except nvJitLinkError:
        return False
    return True


def known(statement, spelling):
    """The pairs, as names have them, that are assembled."""
    pairs = itertools.product(REDUCED, TYPES)
    return {f"{op}_{dtype}" for op, dtype in pairs if is_assembled(statement.format(spelling(op, dtype)))}


def declared(begin):
    return {name.removeprefix(begin) for name in REGISTRY if name.startswith(begin)}


def test_pairs_in_global_memory():
    plain = known(TO_GLOBAL, lambda op, dtype: f"{op}.{dtype}")
    precise = known(TO_GLOBAL, lambda op, dtype: f"{op}.noftz.{dtype}")
    assert precise == {"add_f16", "add_bf16"}
    assert plain | precise == declared("bulk.reduce_")
    assert not plain & precise


def test_pairs_in_shared_memory():
    assert known(TO_SHARED, lambda op, dtype: f"{op}.{dtype}") == declared("bulk.send_reduce_")

"""`jit` without a GPU: compiling, budgets, configurations, arguments, and what ptxas says."""

import functools
import linecache

import numpy as np
import pytest
from cuda.core import ObjectCode
from numba import cuda, float32
from numba.cuda import types
from numba.cuda.typing.typeof import typeof

from hopper_numba import SharedLayout, TensorMap, barriers, jit, tile
from hopper_numba.compile import Compiled, CompileError, PtxasWarning, _link
from hopper_numba.diagnosis import KernelTypeError
from hopper_numba.intrinsics import cache, mbarrier, tma, warp

VECTOR = types.Array(types.float32, 1, "C")


@jit(threads=128)
def scale(x, factor):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = x[i] * factor


def test_what_is_not_compiled_has_no_ptx():
    kernel = jit(threads=128)(scale.py_func)
    with pytest.raises(ValueError, match=r"scale is not compiled yet; scale\.compile\(signature\)"):
        _ = kernel.ptx
    kernel.compile((VECTOR, types.float64))
    kernel.compile((VECTOR, types.float32))
    with pytest.raises(ValueError, match="scale is compiled for 2 signatures"):
        _ = kernel.ptx


def test_compiles_without_a_gpu():
    compiled = scale.compile((VECTOR, types.float64))
    assert ".target sm_90a" in scale.ptx and "FMUL" in scale.sass.replace("DMUL", "FMUL")
    assert scale.resources.registers > 0 and compiled.findings == []
    assert scale.signatures == [(VECTOR, types.float64)]
    assert scale.py_func.__name__ == scale.__name__ == "scale"


def test_a_tensor_map_is_a_grid_constant():
    shared = SharedLayout(a=tile("float16", (8, 64)), loaded=barriers())

    @jit(threads=32, shared=shared)
    def load(first, second):
        smem = shared.open()
        tma.load(smem.a, second, (0, 0), smem.loaded)

    rows = np.zeros((8, 64), np.float16)
    load.compile((TensorMap(rows, shared.members["a"]).numba_type,) * 2)
    assert load.ptx.count(".param .align 64 .b8") == 2
    assert "ld.param" not in load.ptx.split("cp.async.bulk")[0], "the map is addressed in place, never copied"


def specialised(registers, threads=384):
    """A kernel in which warp group 0 gives registers to the others."""

    @jit(threads=threads, registers=registers)
    def roles(x):
        if warp.warp_group_index() == 0:
            warp.setmaxnreg_dec(40)
        else:
            warp.setmaxnreg_inc(232)
            x[cuda.threadIdx.x] = 1

    return roles


def test_setmaxnreg_survives_the_compile_route():
    roles = specialised((40, 232, 232))
    roles.compile((VECTOR,))
    assert roles.sass.count("USETMAXREG") == 2 and roles.resources.registers == 168


def test_more_registers_than_the_block_has_are_refused():
    # launched with 128 registers, as many as four warp groups can have: 40 + 3 x 232 > 4 x 128
    with pytest.raises(
        ValueError, match=r"40 x 128 \+ 232 x 128 \+ 232 x 128 \+ 232 x 128 = 94208 > 128 at launch x 512"
    ):
        specialised((40, 232, 232, 232), threads=512).compile((VECTOR,))


@pytest.mark.parametrize("stated", [None, (40, None, None), (40, 232, 224)])
def test_setmaxnreg_must_be_stated(stated):
    with pytest.raises(ValueError, match=r"setmaxnreg names \[40, 232\], registers is"):
        specialised(stated).compile((VECTOR,))


def test_only_whole_warp_groups_have_registers_of_their_own():
    with pytest.raises(ValueError, match="the last warp group of 288 threads is not whole"):
        specialised((40, 232, 232), threads=288)
    with pytest.raises(ValueError, match="a tuple of 3, one for each warp group; got"):
        specialised((40, 232), threads=288)
    specialised((40, 232, None), threads=288).compile((VECTOR,))


def test_spills_are_heard():
    @jit(threads=1024, min_blocks=2)
    def spilling(x):
        values = cuda.local.array(48, float32)
        for i in range(48):
            values[i] = x[i]
        cuda.syncthreads()
        for i in range(48):
            x[cuda.threadIdx.x + i] = values[i] * values[47 - i]

    with pytest.warns(PtxasWarning, match="spilling: registers spill: [1-9]"):
        spilling.compile((VECTOR,))


FINDINGS = {
    "serialised": "(C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient "
    "register resources for the wgmma pipeline{place}",
    "injected": "(C7519) warpgroup.arrive is injected in around line 413 by compiler to allow use of registers in GMMA",
    "dropped": "(C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.",
}


@pytest.mark.parametrize("finding", FINDINGS.values(), ids=FINDINGS)
def test_what_ptxas_says_is_heard(finding):
    said = finding.format(place=" in the function '_ZN3abc6kernelEf'")
    log = f"ptxas info    : 0 bytes gmem\nptxas info    : {said}\nptxas info    : Used 90 registers, used 1 barriers"
    # the mangled name of a kernel has hundreds of letters, and the warning says which kernel it is
    assert Compiled("k", b"", "", log).findings == [f"ptxas info : {finding.format(place='')}"]


def test_shared_memory_budgets():
    with pytest.raises(ValueError, match=r"at most 232448 bytes; got a 131072 \+ b 131072 = 262144"):
        jit(threads=128, shared=SharedLayout(a=tile("float16", (4, 256, 64)), b=tile("float16", (4, 256, 64))))

    shared = SharedLayout(a=tile("float16", (14, 128, 64)))

    @jit(threads=128, shared=shared)
    def both(x):
        static = cuda.shared.array(1024, float32)
        static[cuda.threadIdx.x] = x[cuda.threadIdx.x]
        cuda.syncthreads()
        x[cuda.threadIdx.x] = static[127 - cuda.threadIdx.x]

    with pytest.raises(ValueError, match=r"4096 static \+ 229376 dynamic = 233472"):
        both.compile((VECTOR,))


def test_half_precision_arithmetic_is_linked():
    halves = types.Array(types.float16, 1, "C")

    @jit(threads=32)
    def arithmetic(x):
        i = cuda.threadIdx.x
        x[i] = max(x[i] * x[i + 1] + x[i + 2], x[i + 3])

    assert arithmetic.compile((halves,)).findings == []


@pytest.mark.parametrize("function", [functools.partial(print), mbarrier.init, 3])
def test_only_functions_become_kernels(function):
    with pytest.raises(TypeError, match="jit: function must be a Python function; got"):
        jit(function, threads=32)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threads": 0}, "threads must be 1 to 1024; got 0"),
        ({"threads": 1025}, "threads must be 1 to 1024; got 1025"),
        ({"threads": 128.0}, "threads must be 1 to 1024; got 128.0"),
        ({"threads": True}, "threads must be 1 to 1024; got True"),
        ({"threads": 128, "min_blocks": 0}, "min_blocks must be 1 to 32; got 0"),
        ({"threads": 544, "min_blocks": 4}, "min_blocks is 4, and an SM has 2048 threads; 4 blocks x 544 = 2176"),
        ({"threads": 97, "min_blocks": 17}, "min_blocks is 17, and an SM has 2048 threads; 17 blocks x 128 = 2176"),
        (
            {"threads": 32, "min_blocks": 7, "shared": SharedLayout(x=tile("uint8", (32320,), None), y=barriers())},
            r"233472 bytes of shared memory; 7 blocks x \(32384 \+ 1024 reserved\) = 233856",
        ),
        (
            {"threads": 32, "min_blocks": 4, "shared": SharedLayout(x=tile("float16", (57 * 128 // 16, 64)))},
            r"and an SM has 233472 bytes of shared memory; 4 blocks x \(58368 \+ 1024 reserved\) = 237568",
        ),
        ({"threads": 128, "shared": 1024}, "shared must be a SharedLayout; got 1024"),
        ({"threads": 128, "cluster": 16}, "jit: a cluster has at most 8 blocks; got cluster=16"),
        ({"threads": 128, "cluster": (4, 1, 4)}, r"jit: a cluster has at most 8 blocks; got cluster=\(4, 1, 4\)"),
        ({"threads": 128, "cluster": 0}, "jit: cluster must be one to three positive integers; got 0"),
        ({"threads": 128, "cluster": True}, "jit: cluster must be one to three positive integers; got True"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        jit(**options)


def test_an_sm_holds_so_many_blocks():
    jit(threads=512, min_blocks=4, shared=SharedLayout(x=tile("float16", (56 * 128 // 16, 64))))
    jit(threads=32, shared=SharedLayout(x=tile("float16", (227 * 128 // 16, 64))))


def test_static_shared_memory_counts_too():
    @jit(threads=32, min_blocks=8)
    def kernel(x):
        words = cuda.shared.array(7 * 1024, float32)
        words[cuda.threadIdx.x] = x[0]
        cuda.syncthreads()
        x[1] = words[3]

    reason = r"kernel: jit's min_blocks is 8, and an SM has .* 8 blocks x \(28672 \+ 1024 reserved\) = 237568"
    with pytest.raises(ValueError, match=reason):
        kernel.compile((VECTOR,))


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        ((4, 64), r"block must have threads=128 threads; got 64.*kernel\[\(x, y\),\]"),
        (0, "grid must be one to three positive integers; got 0"),
        (-1, "grid must be"),
        (((1, 2, 3, 4),), "grid must be"),
        (1.5, "grid must be"),
        ((4, 128.0), "block must be"),
    ],
)
def test_configurations_are_checked(configuration, message):
    with pytest.raises(ValueError, match=message):
        scale[configuration]


@pytest.mark.parametrize("grid", [3, (4, 3), (2, 2, 3)])
def test_a_grid_is_whole_clusters(grid):
    kernel = jit(threads=32, cluster=(2, 2, 1) if grid != (2, 2, 3) else (1, 1, 2))(scale.py_func)
    with pytest.raises(ValueError, match=r"scale: grid must be whole clusters of \(.*\) blocks; got"):
        kernel[grid, 32]


def test_a_grid_has_limits():
    with pytest.raises(ValueError, match=r"grid must be at most \(2147483647, 65535, 65535\); got \(1, 65536\)"):
        scale[(1, 65536),]
    with pytest.raises(ValueError, match="a launch takes grid, block and stream"):
        scale[1, 128, 0, 1024]


RING = SharedLayout(ring=tile("float16", (2, 64, 64)))


def operand_out_of_range(x):
    mbarrier.init(cuda.shared.array(1, types.uint64), 0)


def method_of_several_tiles(x):
    RING.open().ring.address(0, 0)


def value_known_when_code_is_emitted(x):
    cache.evict_first(2.0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (operand_out_of_range, "mbarrier.init: count must be 1 to 1048575; got 0"),
        (method_of_several_tiles, "pick one tile of tile(float16, (2, 64, 64), swizzle 128) first"),
        (value_known_when_code_is_emitted, "cache.evict_first: fraction must be above 0 and at most 1; got 2.0"),
    ],
)
def test_a_refusal_names_the_kernels_line(wrong, message):
    with pytest.raises(KernelTypeError) as caught:
        jit(wrong, threads=32, shared=RING).compile((VECTOR,))
    first, second = str(caught.value).splitlines()
    assert first == message
    line = wrong.__code__.co_firstlineno + 1
    assert second == f"  at {__file__}:{line}: {linecache.getline(__file__, line).strip()}"


@pytest.mark.parametrize(
    ("signature", "message"),
    [
        ("void(float32[:])", "takes a tuple of 2 Numba types, one for each of x, factor; got 'void"),
        ((VECTOR,), "takes a tuple of 2 Numba types"),
        ((VECTOR, 2.0), "factor must be a Numba type or a TensorMap; got 2.0"),
    ],
)
def test_signatures_are_checked(signature, message):
    with pytest.raises(TypeError, match=message):
        scale.compile(signature)


def test_a_layout_that_jit_does_not_know_is_refused():
    shared = SharedLayout(a=tile("float16", (64, 64)), loaded=barriers())

    def opening(x):
        mbarrier.init(shared.open().loaded, 1)

    with pytest.raises(ValueError, match=r"it opens a SharedLayout of 8200 bytes; jit\(shared=…\) must name it"):
        jit(opening, threads=32).compile((VECTOR,))
    jit(opening, threads=32, shared=shared).compile((VECTOR,))


def test_inspection_is_numbas():
    signature = (VECTOR, types.float64)
    scale.compile(signature)
    assert scale.inspect_asm(signature) == scale.inspect_asm()[signature] == scale.ptx
    assert scale.inspect_sass(signature) == scale.sass
    assert scale.get_regs_per_thread(signature) == scale.get_regs_per_thread()[signature] > 0


def test_spills_of_functions_that_were_not_inlined_count():
    log = "".join(
        f"Properties for {name}\n    {spill} bytes stack frame, {spill} bytes spill stores, 8 bytes spill loads\n"
        f"ptxas info    : Used {registers} registers\n"
        for name, spill, registers in (("k", 0, 90), ("f", 16, 100))
    )
    compiled = Compiled("k", b"", "", log)
    assert (compiled.resources.registers, compiled.resources.stack, compiled.resources.spill_stores) == (100, 16, 16)
    assert compiled.findings == ["registers spill: 16 bytes stored, 16 bytes loaded a thread"]


def test_what_nvjitlink_refuses_is_a_compile_error():
    with pytest.raises(CompileError, match=r"(?i)nvjitlink"):
        _link([ObjectCode.from_ltoir(b"no LTO-IR")], "cubin")


def test_a_plain_kernel_says_what_it_takes_for_a_tensor_map():
    tensor_map = TensorMap(np.zeros((8, 64), np.float16), tile("float16", (8, 64)))
    with pytest.raises(TypeError, match=r"takes a TensorMap as its to_device\(\)"):
        typeof(tensor_map)


@pytest.mark.parametrize("configuration", [4, (4,), ((4, 2),), (4, 128), ((4, 2), (32, 4)), (4, None, 0)])
def test_configurations(configuration):
    assert scale[configuration].kernel is scale


def test_an_unknown_argument_is_refused_by_name():
    with pytest.raises(TypeError, match=r"takes arrays in GPU memory, numbers and TensorMaps: factor.*str"):
        scale[1](np.float32(1), "two")


def test_the_number_of_arguments_is_checked():
    with pytest.raises(TypeError, match="scale takes 2 arguments; got 1"):
        scale[1](np.float32(1))


def test_what_libnvvm_drops_is_an_error(monkeypatch):
    import warnings

    from numba.cuda.cudadrv.nvvm import NvvmWarning

    def compile_with_warning(*args, **kwargs):
        warnings.warn("invalid operand", NvvmWarning, stacklevel=1)

    monkeypatch.setattr(cuda, "compile_all", compile_with_warning)

    @jit(threads=32)
    def dropped(x):
        mbarrier.init(cuda.shared.array(1, types.uint64), 1)
        x[0] = 3

    with pytest.raises(CompileError, match="dropped: libNVVM: invalid operand"):
        dropped.compile((VECTOR,))

"""What an instruction does not take is refused when a kernel is compiled, with operand, value and rule."""

import pytest
from numba import cuda
from numba.core.errors import NumbaError
from numba.cuda import types
from refusals import MAP, REFUSALS, SHARED


@pytest.mark.parametrize(("kernel", "parts"), REFUSALS)
def test_refused(kernel, parts, compile_kernel):
    body = cuda.jit(device=True)(kernel)

    def opened(tensor_map, out, n):
        body(SHARED.open(), tensor_map, out, n)

    with pytest.raises(NumbaError) as refusal:
        compile_kernel(opened, (MAP, types.uint32[::1], types.int64), 128)
    said = str(refusal.value)
    for line in said.splitlines():
        if "NumbaTypeError" in line:  # the last one counts; methods of views have none
            said = line
    for part in parts:
        assert part in said

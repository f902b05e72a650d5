"""Matrices in a warp's registers: ldmatrix, stmatrix, mma (PTX ISA, "Warp Level Matrix Instructions").

A warp holds a fragment of 8 x 8 elements of 16 bits in one register a thread: thread ``t`` has elements ``2 * (t % 4)``
and the next one, in the lower and upper half, of row ``t // 4``.
"""

import numpy as np

from .addresses import SharedAddress
from .machine import machine, warp
from .operands import Vector, f32, u32
from .ptx import member, ptx
from .results import Registers
from .tiles import HALVES

FORMS = [(count, trans) for trans in (False, True) for count in (1, 2, 4)]


def transpose(matrices, trans):
    """Each 8 x 8 matrix of 16-bit elements, given as 8 rows of 16 bytes, transposed if `trans`; as u32, 8 x 4."""
    elements = matrices.view(np.uint16).reshape(-1, 8, 8)
    return np.ascontiguousarray(elements.swapaxes(1, 2) if trans else elements).view(np.uint32)


def suffix(count, trans):
    """The end of a name: _x4 or _x4_trans."""
    return f"_x{count}{'_trans' if trans else ''}"


def words(count, trans):
    """How the docstring of a load or store speaks of `count` matrices."""
    number = {1: "one", 2: "two", 4: "four"}[count]
    return {
        "matrices": f"{number} 8 x 8 {'matrix' if count == 1 else 'matrices'}",
        "count": number,
        "others": "" if count == 4 else f"; threads from {8 * count} on are not asked",
        "as_": f", {'each ' * (count > 1)}transposed" if trans else "",
        "each": "each matrix" if count > 1 else "the matrix",
    }


def ldmatrix(count, trans):
    """Declare a load of `count` matrices."""

    def load(lanes):
        rows = [machine().shared_load(row, 16, lane) for lane, (row,) in enumerate(lanes[: 8 * count])]
        return list(map(tuple, transpose(np.concatenate(rows), trans).reshape(count, 32).T.tolist()))

    @ptx(
        f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' * trans}.shared::cta.b16 {{result}}, [{{row}}];",
        threads="warp",
        proxy="generic",
    )
    @member(f"ldmatrix{suffix(count, trans)}", **words(count, trans))
    def ldmatrix(row: SharedAddress()) -> Registers(u32, count):
        """Load {matrices} of 16-bit elements from shared memory{as_}.

        Parameters
        ----------
        row : address in shared memory
            Of 16 bytes, 16-byte aligned: ``tile.address(i, j)``, or a slice ``array[i:]`` of a shared array. Thread
            ``t`` names row ``t % 8`` of matrix ``t // 8``{others}.

        Returns
        -------
        tuple of {count} u32
            Two elements of {each}; the chapter's beginning says which.

        Notes
        -----
        PTX ISA, "ldmatrix". All 32 threads of a warp execute it together. The interpreter raises where they do not, and
        for a row that is misaligned, out of bounds or written by nobody.
        """
        return warp(load, row)

    return ldmatrix


def stmatrix(count, trans):
    """Declare a store of `count` matrices."""

    def store(lanes):
        fragments = np.array([values for _, values in lanes], np.uint32).T.reshape(-1, 8, 4)
        rows = transpose(np.ascontiguousarray(fragments), trans).reshape(-1, 4).view(np.uint8)
        for lane, ((row, _), data) in enumerate(zip(lanes, rows, strict=False)):
            machine().shared_store(row, data, lane)
        return [None] * len(lanes)

    @ptx(
        f"stmatrix.sync.aligned.m8n8.x{count}{'.trans' * trans}.shared::cta.b16 [{{row}}], {{values}};",
        threads="warp",
        proxy="generic",
    )
    @member(f"stmatrix{suffix(count, trans)}", **words(count, trans))
    def stmatrix(row: SharedAddress(), values: Vector(u32, count)) -> None:
        """Store {matrices} of 16-bit elements to shared memory{as_}.

        Parameters
        ----------
        row : address in shared memory
            Of 16 bytes, 16-byte aligned: ``tile.address(i, j)``, or a slice ``array[i:]`` of a shared array. Thread
            ``t`` names row ``t % 8`` of matrix ``t // 8``{others}.
        values : tuple of {count} u32
            Two elements of {each}; the chapter's beginning says which.

        Notes
        -----
        PTX ISA, "stmatrix". All 32 threads of a warp execute it together. A TMA store of what it wrote needs
        `fence.proxy_async_shared_cta` before. The interpreter raises where not the whole warp takes part, and for a row
        that is misaligned or out of bounds.
        """
        warp(store, row, values)

    return stmatrix


ldmatrix_x1, ldmatrix_x2, ldmatrix_x4, ldmatrix_x1_trans, ldmatrix_x2_trans, ldmatrix_x4_trans = (
    ldmatrix(*form) for form in FORMS
)
stmatrix_x1, stmatrix_x2, stmatrix_x4, stmatrix_x1_trans, stmatrix_x2_trans, stmatrix_x4_trans = (
    stmatrix(*form) for form in FORMS
)


def mma_m16n8k16(accumulator, operand):
    """Declare a product of 16 x 16 by 16 x 8."""
    addend = Vector(f32, 4) if accumulator == "f32" else Vector(u32, 2)
    dtype = np.float32 if accumulator == "f32" else np.float16

    def multiply(lanes):
        # axes: lane // 4, lane % 4, then the registers' column half, row half, and the pair
        a, b, c = (np.array(part) for part in zip(*lanes, strict=True))
        a, b = (m.astype(np.uint32).view(HALVES[operand]).astype(np.float64) for m in (a, b))
        a = a.reshape(8, 4, 2, 2, 2).transpose(3, 0, 2, 1, 4).reshape(16, 16)
        b = b.reshape(8, 4, 2, 2).transpose(2, 1, 3, 0).reshape(16, 8)
        c = c if accumulator == "f32" else c.astype(np.uint32).view(np.float16)
        c = c.astype(np.float64).reshape(8, 4, 2, 2).transpose(2, 0, 1, 3).reshape(16, 8)
        with np.errstate(all="ignore"):
            d = (a @ b + c).astype(dtype)
        d = np.ascontiguousarray(d.reshape(2, 8, 4, 2).transpose(1, 2, 0, 3))
        d = d.reshape(32, 4) if accumulator == "f32" else d.view(np.uint32).reshape(32, 2)
        return [tuple(lane) for lane in (d if accumulator == "f32" else d.tolist())]

    held = "4 f32" if accumulator == "f32" else "2 u32"

    @ptx(
        f"mma.sync.aligned.m16n8k16.row.col.{accumulator}.{operand}.{operand}.{accumulator} "
        "{result}, {a}, {b}, {c};",
        threads="warp",
        pure="its result depends on its operands only",
    )
    @member(f"mma_m16n8k16_{accumulator}_{operand}", operand=operand, accumulator=accumulator, held=held)
    def mma(a: Vector(u32, 4), b: Vector(u32, 2), c: addend) -> Registers(addend.kind, addend.count):
        """Multiply a 16 x 16 by a 16 x 8 matrix of {operand} and add a 16 x 8 matrix of {accumulator}.

        Parameters
        ----------
        a : tuple of 4 u32
            Fragments of rows 0-7 and 8-15 of columns 0-7, then the same of columns 8-15.
        b : tuple of 2 u32
            Fragments of the transpose: of its 8 rows, columns 0-7 and 8-15.
        c : tuple of {held}
            Of the addend, the two elements of rows 0-7, then those of rows 8-15.

        Returns
        -------
        tuple of {held}
            As `c`.

        Notes
        -----
        PTX ISA, "mma". All 32 threads of a warp execute it together; the interpreter raises where they do not. It adds
        in another order than the hardware, and rounds once: equal for small integers, close otherwise.
        """
        return warp(multiply, a, b, c)

    return mma


mma_m16n8k16_f32_f16 = mma_m16n8k16("f32", "f16")
mma_m16n8k16_f32_bf16 = mma_m16n8k16("f32", "bf16")
mma_m16n8k16_f16_f16 = mma_m16n8k16("f16", "f16")

"""What is chosen of a stage's kernel: sizes, the candidates of a stage, and the defaults that tuning found.

Tuning is a command, `hopper-numba tune`; its choices are checked in as `defaults.json`, by the board's name.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import functools
import itertools
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

DEFAULTS = Path(__file__).with_name("defaults.json")
MOST = dict.fromkeys(("M of tile", "N of tile", "K of tile", "stages"), 1024) | {"group": 2**20, "blocks": 32}
KNOWN = "NVIDIA H200"
"""The board whose choices serve where there are none: on another board, or without any."""


@dataclasses.dataclass(frozen=True)
class Config:
    """The sizes that a stage's kernel is built with.

    Parameters
    ----------
    tile : tuple of int
        M, N and K of a block's tile, in elements.
    stages : int
        Tiles in the ring of shared memory.
    group : int
        Rows of tiles that blocks walk down before they go on to the next column, so that operands stay in L2.
    blocks : int
        Blocks that an SM shall hold at once; limits the registers of a thread. A stage whose threads or shared memory
        an SM cannot hold so often is not built.

    Raises
    ------
    TypeError, ValueError
        For a value that is no positive integer, or a very large one. What a stage asks beyond that, it says when it is
        built.
    """

    tile: tuple[int, int, int]
    stages: int = 1
    group: int = 1
    blocks: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.tile, tuple) or len(self.tile) != 3:
            raise TypeError(f"Config: tile must be a tuple of three integers, M, N and K; got {self.tile!r}")
        for name, value in self._sizes().items():
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"Config: {name} must be an integer; got {value!r}")
            if not 1 <= value <= MOST[name]:
                raise ValueError(f"Config: {name} must be 1 to {MOST[name]}; got {value}")

    def _sizes(self) -> dict[str, int]:
        m, n, k = self.tile
        return {
            "M of tile": m,
            "N of tile": n,
            "K of tile": k,
            "stages": self.stages,
            "group": self.group,
            "blocks": self.blocks,
        }

    def __str__(self) -> str:
        parts = ["x".join(map(str, self.tile))]
        parts += [f"{self.stages} stages"] if self.stages > 1 else []
        parts += [f"groups of {self.group}"] if self.group > 1 else []
        parts += [f"{self.blocks} blocks an SM"] if self.blocks > 1 else []
        return ", ".join(parts)

    def require(
        self, stage: str, *, m: Sequence[int], n: Sequence[int], k: Sequence[int], **others: Sequence[int]
    ) -> None:
        """Refuse what a stage cannot be built with.

        Parameters
        ----------
        stage : str
            Its name, for the error.
        m, n, k : sequence of int
            What the tile's extents may be; a range, mostly.
        **others : sequence of int
            What `stages`, `group` and `blocks` may be, where not any.

        Raises
        ------
        ValueError
            For a size that is not among these.
        """
        sizes = self._sizes()
        for name, allowed in {"M of tile": m, "N of tile": n, "K of tile": k, **others}.items():
            if sizes[name] not in allowed:
                raise ValueError(f"{stage}: config's {name} must be {_in_words(allowed)}; got {sizes[name]}")

    def as_object(self) -> dict[str, Any]:
        """For JSON."""
        return {**dataclasses.asdict(self), "tile": [*self.tile]}

    @classmethod
    def from_object(cls, values: dict[str, Any]) -> Config:
        """What `as_object` gave. Raises TypeError or ValueError for anything else."""
        if not isinstance(values, dict) or not isinstance(values.get("tile"), list):
            raise TypeError(f"a config must be an object with a list as its tile; got {values!r}")
        return cls(**{**values, "tile": tuple(values["tile"])})


def _in_words(allowed: Sequence[int]) -> str:
    if isinstance(allowed, range) and len(allowed) > 2:
        steps = f" in steps of {allowed.step}" if allowed.step > 1 else ""
        return f"{allowed[0]} to {allowed[-1]}{steps}"
    return " or ".join(map(str, allowed))


@dataclasses.dataclass(frozen=True)
class Space:
    """The candidates of a stage: every combination of these, as `Config` has them.

    Iterated over, it gives the configs. Some may not fit; `hopper-numba tune` passes over them and says why.
    """

    tile: tuple[tuple[int, int, int], ...]
    stages: tuple[int, ...] = (1,)
    group: tuple[int, ...] = (1,)
    blocks: tuple[int, ...] = (1,)

    def __iter__(self) -> Iterator[Config]:
        return itertools.starmap(Config, itertools.product(self.tile, self.stages, self.group, self.blocks))


# Defaults ------------------------------------------------------------------------------------------------------------

Choices = dict[str, dict[str, Config]]
"""Configs by board and stage."""


def default(stage: str, board: str | None = None) -> Config:
    """The config of a stage unless another is given.

    Parameters
    ----------
    stage : str
    board : str, optional
        As the driver names it.

    Returns
    -------
    Config
        The board's; that of an H200 if there is none of the board, or no board.

    Raises
    ------
    OSError, ValueError
        If the file of the defaults is damaged.
    """
    choices = _checked_in()
    for name in (board, KNOWN):
        if name is not None and (config := choices.get(name, {}).get(stage)) is not None:
            return config
    raise ValueError(f"{DEFAULTS} has no config of {stage} for {KNOWN}, which serves every board that it does not name")


@functools.cache
def _checked_in() -> Choices:
    return read_choices(DEFAULTS)


def read_choices(path: Path) -> Choices:
    """The configs in a file.

    Raises
    ------
    OSError
        If it cannot be read.
    ValueError
        If it is not JSON, or has something else than configs by board and stage.
    """
    try:
        return {
            board: {stage: Config.from_object(values) for stage, values in stages.items()}
            for board, stages in json.loads(path.read_text()).items()
        }
    except (AttributeError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"{path} must have configs by board and stage: {error}") from error


def add_choice(path: Path, board: str, stage: str, config: Config) -> None:
    """Set the config of a stage on a board in a file of configs, new or old; what others set meanwhile stays."""
    path = path.resolve()  # what a link names is replaced, not the link
    with _alone_in(path.parent):
        choices = read_choices(path) if path.exists() else {}
        choices.setdefault(board, {})[stage] = config
        write_choices(path, choices)


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Hold off other processes that ask for the same."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def write_choices(path: Path, choices: Choices) -> None:
    """Write a file of configs, a line for each, sorted; whoever reads it meanwhile has the old one or the new."""
    boards = []
    for board, stages in sorted(choices.items()):
        lines = [f"  {json.dumps(stage)}: {json.dumps(config.as_object())}" for stage, config in sorted(stages.items())]
        boards.append(f" {json.dumps(board)}: {{\n" + ",\n".join(lines) + "\n }")
    new = path.with_name(f".configs.{os.getpid()}")
    try:
        new.write_text("{\n" + ",\n".join(boards) + "\n}\n")
        if path.exists():
            shutil.copymode(path, new)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)

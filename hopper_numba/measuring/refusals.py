"""Why a command cannot measure, or write what it measures: asked before anything is compiled. Empty where it can."""

from __future__ import annotations

import os
from pathlib import Path

from hopper_numba import interpreter


def why_not_written(option: str, path: Path) -> str:
    """Why the file that an option names cannot be written."""
    if not path.parent.is_dir():
        return f"{option}: there is no folder {path.parent}"
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        return f"{option}: {path} cannot be written"
    return ""


def why_not_replaced(option: str, path: Path) -> str:
    """Why the file that an option names cannot be read, or a new one take its place."""
    if path.exists() and not path.is_file():
        return f"{option}: {path} is no file"
    folder = path.resolve().parent
    if folder.is_dir() and not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return f"{option}: no file can be made in {folder}"
    return why_not_written(option, path)


def why_not_timed() -> str:
    """Why nothing that runs here is worth timing."""
    if interpreter.active() is not None:
        return "what is interpreted is not worth timing: unset HOPPER_NUMBA_INTERPRET"
    return ""

"""Bugs of Hopper kernels that people have reported, as small kernels; a file for each theme."""

from . import barriers, clusters, copies, pipelines, proxies, threads
from .bug import BUGS

__all__ = ["BUGS", "barriers", "clusters", "copies", "pipelines", "proxies", "threads"]

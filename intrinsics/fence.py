"""Fences: between proxies, for barrier initialisation, and between threads (PTX ISA, "membar / fence").

A tensor map that a kernel changes in device memory is written through the generic proxy, and read through the tensormap
proxy by the copies that use it. Between the two stands a pair of fences: who changed it executes a
`proxy_tensormap_release`; then whoever uses it learns of that (a barrier, or a flag in memory), and executes a
`proxy_tensormap_acquire` of the map before the copy. Both are of a scope that has the other thread in it.
"""

from .addresses import TensorMapAddress
from .machine import machine
from .operands import Refused
from .ptx import member, ptx
from .types import TensorMapType

SCOPES = {
    "cta": "the threads of its block",
    "cluster": "the threads of its cluster",
    "gpu": "the threads of the GPU",
    "sys": "the threads of the GPU, of other GPUs, and of the host",
}
"""Who sees the order, by PTX's names."""


@ptx("fence.mbarrier_init.release.cluster;", threads="any", proxy="generic")
def mbarrier_init() -> None:
    """Make this thread's `mbarrier.init` visible to the async proxy and to the cluster.

    Notes
    -----
    PTX ISA, "membar / fence": fence.mbarrier_init. The thread that initialised executes it, before a barrier of the
    block or the cluster. The interpreter raises where it is missing (``phase-overrun``), by the copy that is given the
    barrier, and by a thread of another block that uses it behind relaxed arrivals; behind `cluster.sync` that is
    ``undecided-order``, and nothing is raised.
    """
    machine().fence("mbarrier_init")


def between_proxies(name, space, memory):
    """Declare a fence between the generic and the async proxy."""

    @ptx(f"fence.proxy.async{space};", threads="any", proxy="generic, async")
    @member(name, memory=memory)
    def proxy_async() -> None:
        """Order this thread's accesses to {memory} by ordinary instructions before later ones by TMA and WGMMA.

        A store reaches the async proxy only so: the threads that stored execute this, then they meet at a barrier, then
        the copy or `wgmma.mma` is issued. The other way round waiting on the barrier of a copy is enough.

        Notes
        -----
        PTX ISA, "membar / fence": fence.proxy. Any thread executes it. The interpreter raises where it is missing
        (``missing-proxy-fence``), by the copy or `wgmma.mma` that needs it. One that comes after the barrier only is
        ``undecided-order``: the manual has no rule for it, and nothing is raised.
        """
        machine().fence(name)

    return proxy_async


proxy_async = between_proxies("proxy_async", "", "shared and global memory")
proxy_async_shared_cta = between_proxies("proxy_async_shared_cta", ".shared::cta", "the block's shared memory")
proxy_async_shared_cluster = between_proxies(
    "proxy_async_shared_cluster", ".shared::cluster", "the shared memory of the cluster's blocks"
)
proxy_async_global = between_proxies("proxy_async_global", ".global", "global memory")


def between_threads(scope):
    """Declare a fence of a scope."""
    name = f"acq_rel_{scope}"

    @ptx(f"fence.acq_rel.{scope};", threads="any", proxy="generic")
    @member(name, threads=SCOPES[scope])
    def acq_rel() -> None:
        """Order this thread's accesses to memory before the fence and those after it, as seen by {threads}.

        With a flag written after it and read before another thread's fence, everything written before is visible there.

        Notes
        -----
        PTX ISA, "membar / fence": fence.acq_rel. Any thread executes it. To the interpreter it orders what relaxed
        arrivals behind it pass on; without it, that is a ``data-race``.
        """
        machine().fence(name)

    return acq_rel


acq_rel_cta, acq_rel_cluster, acq_rel_gpu, acq_rel_sys = map(between_threads, SCOPES)


def tensormap_release(scope):
    """Declare the fence behind a change of a tensor map."""
    name = f"proxy_tensormap_release_{scope}"

    @ptx(f"fence.proxy.tensormap::generic.release.{scope};", threads="any", proxy="generic, tensormap")
    @member(name, threads=SCOPES[scope], scope=scope)
    def release() -> None:
        """Release this thread's changes of tensor maps in device memory to {threads}.

        They execute `proxy_tensormap_acquire_{scope}`, or that of a wider scope, before they use the map; what tells
        them that it is ready comes after this.

        Notes
        -----
        PTX ISA, "membar / fence": fence.proxy.tensormap. The thread that changed the map executes it. The interpreter
        only switches threads here: it does not find one that is missing.
        """
        machine().fence(name)

    return release


def in_memory(tensor_map):
    """Refuse a kernel parameter."""
    if isinstance(tensor_map, TensorMapType):
        raise Refused(
            f"tensor_map must lie in device memory, the uint64 array of its to_device(): a kernel's parameter does not "
            f"change; got {tensor_map}"
        )
    return {}


def tensormap_acquire(scope):
    """Declare the fence before a changed tensor map is used."""
    name = f"proxy_tensormap_acquire_{scope}"

    @ptx(
        f"fence.proxy.tensormap::generic.acquire.{scope} [{{tensor_map}}], 128;",
        threads="any",
        proxy="generic, tensormap",
        form=in_memory,
    )
    @member(name, threads=SCOPES[scope], scope=scope)
    def acquire(tensor_map: TensorMapAddress()) -> None:
        """Acquire a tensor map that was changed: later copies of this thread use it as it is now.

        The one that changed it, of {threads}, has executed `proxy_tensormap_release_{scope}`, or that of a wider scope,
        and this one has learnt of that. PTX asks for it too where the host wrote the map before the launch, which does
        not order the tensormap proxy.

        Parameters
        ----------
        tensor_map : TensorMap
            In device memory, the uint64 array of its ``to_device()``; all of its 128 bytes.

        Notes
        -----
        PTX ISA, "membar / fence": fence.proxy.tensormap. The thread that issues the copies executes it. The interpreter
        only switches threads here: it does not find one that is missing.
        """
        machine().fence(name)

    return acquire


(
    proxy_tensormap_release_cta,
    proxy_tensormap_release_cluster,
    proxy_tensormap_release_gpu,
    proxy_tensormap_release_sys,
) = map(tensormap_release, SCOPES)
(
    proxy_tensormap_acquire_cta,
    proxy_tensormap_acquire_cluster,
    proxy_tensormap_acquire_gpu,
    proxy_tensormap_acquire_sys,
) = map(tensormap_acquire, SCOPES)

"""Fences: between proxies, for barrier initialisation, and between threads (PTX ISA, "membar / fence")."""

from .machine import machine
from .ptx import member, ptx


@ptx("fence.mbarrier_init.release.cluster;", threads="any", proxy="generic")
def mbarrier_init() -> None:
    """Make this thread's `mbarrier.init` visible to the async proxy and to the cluster.

    Notes
    -----
    PTX ISA, "membar / fence": fence.mbarrier_init. The thread that initialised executes it, before a barrier of the
    block or the cluster.
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
        PTX ISA, "membar / fence": fence.proxy. Any thread executes it. The interpreter only switches threads
        here: it does not find a fence that is missing yet.
        """
        machine().fence(name)

    return proxy_async


proxy_async = between_proxies("proxy_async", "", "shared and global memory")
proxy_async_shared_cta = between_proxies("proxy_async_shared_cta", ".shared::cta", "the block's shared memory")
proxy_async_shared_cluster = between_proxies(
    "proxy_async_shared_cluster", ".shared::cluster", "the shared memory of the cluster's blocks"
)
proxy_async_global = between_proxies("proxy_async_global", ".global", "global memory")


def between_threads(scope, threads):
    """Declare a fence of a scope."""
    name = f"acq_rel_{scope}"

    @ptx(f"fence.acq_rel.{scope};", threads="any", proxy="generic")
    @member(name, threads=threads)
    def acq_rel() -> None:
        """Order this thread's accesses to memory before the fence and those after it, as seen by {threads}.

        With a flag written after it and read before another thread's fence, everything written before is visible there.

        Notes
        -----
        PTX ISA, "membar / fence": fence.acq_rel. Any thread executes it. The interpreter only switches threads
        here: it does not find a fence that is missing yet.
        """
        machine().fence(name)

    return acq_rel


acq_rel_cta = between_threads("cta", "the threads of its block")
acq_rel_cluster = between_threads("cluster", "the threads of its cluster")
acq_rel_gpu = between_threads("gpu", "all threads of the GPU")

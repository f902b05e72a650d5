"""Several test processes share the GPU."""

import os

# JAX would take three quarters of its memory at the first array
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

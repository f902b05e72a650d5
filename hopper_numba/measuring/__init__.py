"""Measuring on a GPU, for the commands `bench` and `tune` and for `benchmarks/`: needs what the `bench` extra installs.

A product is measured like so: `problem` has its operands and judges a result, `contenders` are who multiplies, among
them `triton_peer`; `timing` times them against cuBLAS, `clock` and `board` say how fast the board ran, and `results`
makes rows and verdicts of it. `plot` draws the rows; `ncu` asks Nsight Compute about a launch.

Of a stage's configs `candidates` passes over those that do not fit, `race` times the others against each other, and
`tuning` does both and writes the fastest to the defaults.

`refusals` is what both commands ask before they begin. It, `results`, `plot`, `candidates`, `race` and `ncu`, but for
the program that this profiles, work without Torch and a GPU.
"""

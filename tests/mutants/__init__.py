"""Mutants: every stage with one synchronising call deleted or altered, to see whether the interpreter reports it.

`reach` finds the functions that a kernel is made of, `mutate` alters one, `examine` interprets it, `harmless` lists
what survives and does not matter, each with the reason. ``python -m mutants`` does it all and prints a table.
"""

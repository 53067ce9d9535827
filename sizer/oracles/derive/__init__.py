"""The closed form of a module that sizer does not describe, from the module itself.

`trace` watches which sums and products the arguments enter while the module is built, `points`
draws arguments that the module accepts, `fit` says a series of numbers as an expression, and
`groups` folds the tensors that repeat. `derive` puts them together and checks the result at fresh
points; nothing that the trace suggests is believed without that.
"""

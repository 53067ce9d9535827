"""Where sizer stands in time and memory, measured and printed; nothing here is a test.

    python -m benchmarks [NAME]

Every comparison is paired: the commands run in turn, round after round, so that what else the
machine does falls on all of them. Ratios are medians of the rounds' ratios.
"""

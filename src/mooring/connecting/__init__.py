"""Jobs of the machine's queue from a Python program: `mooring.connect`, plain and async.

`conversation` knows what to ask in which order, `plain` and `asynchronous` how to ask and wait.
"""

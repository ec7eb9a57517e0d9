"""What runs inside a training program without being asked: it watches, or does what the job says.

`sitecustomize.py` is on the path of the program's interpreter, which imports it at its start.
Everything else is in `mooring_inside`, a package of its own that knows nothing of Mooring: it is
carried in the launcher's archive into environments that have no Mooring.
"""

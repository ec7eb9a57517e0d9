"""Which variable lives on which parameter server, what it moves, and where it would be better.

`facts` are read from a run or a file; `compare` turns them into figures; `text` prints these.
"""

from mooring.variables.compare import PlacementComparison, compare
from mooring.variables.facts import Facts, Maker, PartFacts

__all__ = ["Facts", "Maker", "PartFacts", "PlacementComparison", "compare"]

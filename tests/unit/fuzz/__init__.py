"""Everything that Mooring reads from outside, given what nobody would write."""

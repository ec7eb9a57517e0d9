"""The operator: many jobs on one cluster, each by the rules of `mooring.lifecycle`."""

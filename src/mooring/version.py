"""The version of this package, without the cost of reading its metadata."""

VERSION = "0.1.0"

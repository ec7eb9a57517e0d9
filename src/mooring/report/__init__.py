"""What a run did, read from its directory alone: live while it runs, as a report afterwards."""

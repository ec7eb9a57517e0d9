"""Tests against a real Kubernetes: API server, scheduler, controllers, and a kubelet."""

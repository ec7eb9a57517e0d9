"""Members as pods: pure translations between the model and Kubernetes objects, no I/O."""

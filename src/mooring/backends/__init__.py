"""Where jobs run and are asked about: this machine, a Kubernetes cluster, the simulator."""

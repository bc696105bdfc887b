"""Parts shared by the adapters of several compositions: snapshots, nodes, the last epoch."""

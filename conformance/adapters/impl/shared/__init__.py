"""Parts that the adapters of several compositions share: snapshots, nodes, the last epoch."""

"""The one mutable picture of the cluster: watch events in, immutable snapshots out."""

"""Where traces come from: a cluster that is watched, and files of other systems."""

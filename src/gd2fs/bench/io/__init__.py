"""The benchmark of the data path: every case in turn with its ceiling, on the same machine."""

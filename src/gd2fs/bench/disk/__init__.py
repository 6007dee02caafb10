"""Bench disk: the disk tier's engine beside fio, on the same file system in the same run."""

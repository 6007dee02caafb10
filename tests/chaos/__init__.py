"""The chaos suite: real nodes in namespaces of their own, seeded faults, and a checker."""

"""Choose which clients train next in federated learning."""

__version__ = "0.1.0"

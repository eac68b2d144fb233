from tests.wire.fixtures import client, serve

__all__ = ["client", "serve"]

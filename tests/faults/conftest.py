"""The engine and the base image are those of the Docker tests."""

from tests.docker.conftest import base_image, engine, image

__all__ = ["base_image", "engine", "image"]

"""Data of the tests of `[errors]`: images."""

from hpcai.data.image_source import IMAGES

SOURCE = IMAGES

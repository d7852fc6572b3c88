"""Dataset of the tests of `[ensemble]`: images."""

from hpcai.data.image_source import IMAGES

SOURCE = IMAGES

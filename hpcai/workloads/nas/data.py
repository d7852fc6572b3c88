"""Dataset of the tests of `[nas]`: images."""

from hpcai.data.image_source import IMAGES

SOURCE = IMAGES

"""Packer: makes the shards of `imagenet:PATH` from folders of images, `python -P -m hpcai.data.pack SOURCE TARGET`."""

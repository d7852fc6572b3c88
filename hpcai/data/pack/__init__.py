"""Makes the shards that `imagenet:PATH` reads from folders of images: `python -m hpcai.data.pack SOURCE TARGET`."""

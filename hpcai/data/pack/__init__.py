"""Makes the shards that `imagenet:PATH` reads from folders of pictures: `python -m hpcai.data.pack SOURCE TARGET`."""

"""Climate fields with boxes around extreme weather: generated, as published, and packed for training."""

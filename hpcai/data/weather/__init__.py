"""Climate fields with boxes around extreme weather: generated, published and packed."""

"""The detector in torch: what makes boxes from features, and features from boxes."""

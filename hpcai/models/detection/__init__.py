"""The detector in torch: anchors, proposals, region features, losses."""

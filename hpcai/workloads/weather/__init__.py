"""[weather]: extreme weather detection by an ensemble of detectors."""

"""[ensemble]: image classification by an ensemble of models."""

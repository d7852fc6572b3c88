"""Training of one base model by a group of ranks, and the evaluation of the ensemble of all groups' models."""

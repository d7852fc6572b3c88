"""Training of one base model by its group, and the judgement of the ensemble that the groups form."""

"""How the gradients of a group are summed: the algorithm (KEY ALLREDUCE) and the type on the wire (KEY WIRE).

The modules import no torch: their vectors are torch tensors and their futures torch's, handed to them by
`hpcai.train.communication`, so that plan and verification read digits and bytes without it.
"""

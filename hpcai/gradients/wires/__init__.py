"""Wire types of gradients: the choices of WIRE, one module each."""

from hpcai.choices import Choices
from hpcai.gradients.wires.wire import Wire

WIRES: Choices[Wire] = Choices(__name__)

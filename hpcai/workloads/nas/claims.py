"""Claims about `[nas]`: the data, the trials one by one and together, and what the input says of the search."""

from hpcai.results.claim import Claims
from hpcai.results.image_data_claims import IMAGE_DATA
from hpcai.results.memory_claims import MEMORY
from hpcai.results.telemetry_claims import ROW_TELEMETRY
from hpcai.results.training_claims import SAMPLES_IN_MEMORY

CLAIMS: Claims = (IMAGE_DATA, (SAMPLES_IN_MEMORY, *MEMORY, *ROW_TELEMETRY))
STOPPED_CLAIMS: Claims = ()

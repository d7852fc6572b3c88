"""The input file: KEYs of input.dat, parser, cases, echo."""

from hpcai.inputfile.cases import Case, Problem, Section
from hpcai.inputfile.echo import echo
from hpcai.inputfile.key import Key, SectionDeclaration
from hpcai.inputfile.keys import all_keys, sections
from hpcai.inputfile.parse import parse
from hpcai.inputfile.reference import reference
from hpcai.inputfile.shipped import shipped_text

__all__ = [
    "Case",
    "Key",
    "Problem",
    "Section",
    "SectionDeclaration",
    "all_keys",
    "echo",
    "parse",
    "reference",
    "sections",
    "shipped_text",
]

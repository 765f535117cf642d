"""Sample sets in memory: the collection, strings, labels, indexing and validation."""

from dkdist.sets.conversion import as_sample_sets as as_sample_sets
from dkdist.sets.point_checks import SampleSetError as SampleSetError
from dkdist.sets.sample_sets import SampleSets as SampleSets

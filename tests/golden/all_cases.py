"""All golden cases."""

from . import collection_cases as collection_cases
from . import embedding_cases as embedding_cases
from . import hypothesis_test_cases as hypothesis_test_cases
from . import kernel_cases as kernel_cases
from . import learner_cases as learner_cases
from . import pairwise_cases as pairwise_cases
from . import theory_cases as theory_cases
from .harness import CASES as CASES

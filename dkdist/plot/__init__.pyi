"""Public names of `dkdist.plot`, imported on first use."""

from ._calibration import calibration as calibration
from ._collection import collection as collection
from ._contributions import contributions as contributions
from ._curves import learning_curve as learning_curve
from ._curves import validation_curve as validation_curve
from ._distances import distances as distances
from ._error_against_features import error_against_features as error_against_features
from ._intervals import intervals as intervals
from ._leaderboard import leaderboard as leaderboard
from ._sets import sets as sets
from ._witness import witness as witness

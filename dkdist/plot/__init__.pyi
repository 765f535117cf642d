"""What `dkdist.plot` offers: every picture once, with its home; imported when it is first used."""

from .data.collection_plot import collection as collection
from .data.contributions_plot import contributions as contributions
from .data.distances_plot import distances as distances
from .data.sets_plot import sets as sets
from .data.witness_plot import witness as witness
from .models.calibration_plot import calibration as calibration
from .models.error_plot import error_against_features as error_against_features
from .models.intervals_plot import intervals as intervals
from .models.leaderboard_plot import leaderboard as leaderboard
from .models.learning_curve_plot import learning_curve as learning_curve
from .models.validation_curve_plot import validation_curve as validation_curve

"""What random numbers are for: a seed and a role give a stream, so that one seed serves many purposes independently.

The numbers are part of what a seed means: changing one changes results. They spell their purpose in ASCII. None is 0:
NumPy leaves zeros at the end of a key out, and a user's own generator of the same seed would draw the same numbers.
"""

from enum import IntEnum


class RngStream(IntEnum):
    """Stands in the key of a generator, after the seed: ``np.random.default_rng([seed, Role.FREQUENCIES])``."""

    # linear: the order of learning
    HELD_OUT = 0x48454C44  # "HELD": the rows that early stopping, searches and penalties are judged by
    CALIBRATION = 0x43414C49  # "CALI": the rows that probabilities of ridge regression are fitted on
    BLOCK_ORDER = 0x424C4F43  # "BLOC": the order of blocks in an epoch
    ROW_ORDER = 0x524F5753  # "ROWS": the order of rows in a batch, and the block that the first step is estimated from
    # base
    MEDIANS = 0x4D454449  # "MEDI": the sets, points and rows that medians are taken of
    # densities
    FREQUENCIES = 0x44495645  # "DIVE": of the spectral measure of a divergence
    NODES = 0x4E4F4445  # "NODE": uniform nodes of densities
    HALVES = 0x48414C56  # "HALV": of sets, whose dependence of dimensions is compared
    # distances
    OBJECTS = 0x4F4D4547  # "OMEG": the random objects that distances are measured to
    DIRECTIONS = 0x44324B45  # "D2KE": of a sliced distance
    SLICED_EMBEDDING = 0x534C4943  # "SLIC": directions of a sliced Wasserstein embedding
    # pairs
    GROUP_PERMUTATIONS = 0x47524F55  # "GROU": of sets among groups
    CELLS = 0x43454C4C  # "CELL": the rows that cells of neighbours are made and tried with
    # explaining
    COALITIONS = (
        0x53484C59  # "SHLY": which dimensions are kept together, and the points that stand for others
    )
    BACKGROUND = 0x4241434B  # "BACK": the sets that dimensions are compared with
    # auto
    OUTER_FOLDS = 0x4F555446  # "OUTF": outer folds of nested evaluation, and the hold-out of many sets
    JACKKNIFE = 0x4A41434B  # "JACK": blocks of rows for standard errors
    P_VALUE = 0x5056414C  # "PVAL": permutations of targets
    # kernel
    FOURIER = 0x52464620  # "RFF ": random Fourier features of rows
    MEAN_FREQUENCIES = 0x4D45414E  # "MEAN": of mean embeddings
    ENERGY_FREQUENCIES = 0x4B444953  # "KDIS": of an estimated kernel distance
    SHAPE_POINTS = 0x53484150  # "SHAP": points sampled on a shape
    PERMUTATIONS = 0x54574F53  # "TWOS": of a two-sample test
    TEST_FREQUENCIES = 0x54455354  # "TEST": of the kernels of a two-sample test
    CORESET = 0x434F5245  # "CORE": which points stand for others
    MOTION_CELLS = 0x43455254  # "CERT": paths that the cost of a certified alignment is estimated by

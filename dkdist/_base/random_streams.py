"""Named random streams: independent generators from one seed, one for each purpose.

Changing a key changes the results of a seed. Keys spell their purpose in ASCII. No key is 0: NumPy ignores
zeros at the end of a key, so the stream would equal a user's own generator of the same seed.
"""

from enum import IntEnum


class RngStream(IntEnum):
    """Second part of the key of a generator: ``np.random.default_rng([seed, RngStream.FREQUENCIES])``."""

    # Streams of linear
    HELD_OUT = 0x48454C44  # "HELD": validation rows of early stopping, searches and penalties
    CALIBRATION = 0x43414C49  # "CALI": rows for the calibration of ridge probabilities
    BLOCK_ORDER = 0x424C4F43  # "BLOC": order of blocks in an epoch
    ROW_ORDER = (
        0x524F5753  # "ROWS": order of rows in a batch, and the block that estimates the first step size
    )
    DENSITY_POINTS = 0x504F494E  # "POIN": points drawn from predicted densities
    # Streams of base
    MEDIANS = 0x4D454449  # "MEDI": sets, points and rows sampled for medians
    # Streams of embeddings
    FREQUENCIES = 0x44495645  # "DIVE": frequencies of the spectral measure of a divergence
    NODES = 0x4E4F4445  # "NODE": uniform nodes of densities
    HALVES = 0x48414C56  # "HALV": halves of sets for tests of dependence
    WORDS = 0x574F5244  # "WORD": k-means of a codebook
    # Streams of distances
    OBJECTS = 0x4F4D4547  # "OMEG": landmarks of distance embeddings
    DIRECTIONS = 0x44324B45  # "D2KE": directions of a sliced distance
    SLICED_EMBEDDING = 0x534C4943  # "SLIC": directions of a sliced Wasserstein embedding
    # Streams of pairwise_matrices and two_sample
    GROUP_PERMUTATIONS = 0x47524F55  # "GROU": permutations of sets among groups
    CELLS = 0x43454C4C  # "CELL": rows that train and test the cells of a neighbour index
    LANDMARKS = 0x4C414E44  # "LAND": landmarks of Nyström features of sets
    # Streams of inspection
    COALITIONS = 0x53484C59  # "SHLY": coalitions of dimensions, and points that replace the other dimensions
    BACKGROUND = 0x4241434B  # "BACK": background sets of contributions of dimensions
    # Streams of auto
    OUTER_FOLDS = 0x4F555446  # "OUTF": outer folds of nested cross-validation, and hold-out sets
    JACKKNIFE = 0x4A41434B  # "JACK": blocks of rows for standard errors
    P_VALUE = 0x5056414C  # "PVAL": permutations of targets
    SAMPLED_SETS = 0x53414D50  # "SAMP": sets to which models of large collections are fitted
    POINT_ORDER = 0x4F524445  # "ORDE": sets that decide whether points are ordered
    # Streams of kernels, coresets and alignment
    FOURIER = 0x52464620  # "RFF ": frequencies of random Fourier features
    MEAN_FREQUENCIES = 0x4D45414E  # "MEAN": frequencies of mean embeddings
    ENERGY_FREQUENCIES = 0x4B444953  # "KDIS": frequencies of an estimated kernel distance
    SHAPE_POINTS = 0x53484150  # "SHAP": points sampled on a shape
    PERMUTATIONS = 0x54574F53  # "TWOS": permutations of a two-sample test
    TEST_FREQUENCIES = 0x54455354  # "TEST": frequencies of the kernels of a two-sample test
    CORESET = 0x434F5245  # "CORE": selection of coreset points
    MOTION_STARTS = 0x4D4F5449  # "MOTI": random motions from which a local alignment starts
    MOTION_CELLS = 0x43455254  # "CERT": paths that estimate the cost of a certified alignment

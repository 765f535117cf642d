"""How sure a prediction is: calibrated probabilities, sets of classes and intervals that cover what they say."""

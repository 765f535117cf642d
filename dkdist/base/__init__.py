"""What all embeddings of sets share: their base class, their inputs, bad and huge sets, checks of parameters."""

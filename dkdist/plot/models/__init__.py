"""Pictures of models: how they learn, what they score, how sure they are."""

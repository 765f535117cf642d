"""What is written and read as files: models, features, imported and compacted stores."""

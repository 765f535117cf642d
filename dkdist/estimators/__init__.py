"""scikit-learn estimators: conventions, validation, and the wiring between the other rooms."""

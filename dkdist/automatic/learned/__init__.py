"""What was learned: machines that predict, what explains them, and what is kept beside them."""

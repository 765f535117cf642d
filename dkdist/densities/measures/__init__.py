"""What a divergence is made of: kappa(x, y), its spectral measure, and frequencies that stand for it."""

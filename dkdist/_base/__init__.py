"""What every embedding uses: base class, inputs, invalid and oversized sets, random streams, parameter checks."""

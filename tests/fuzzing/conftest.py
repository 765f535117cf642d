"""What is not looked through for examples, since to import it compiles loops, in every worker at once."""

collect_ignore = ["calls.py"]

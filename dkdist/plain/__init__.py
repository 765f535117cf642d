"""What users and disks give, made plain and checked: files, archives, JSON, arrays of real numbers, switches."""

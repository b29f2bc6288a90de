"""What the papers prove about each rule, tested in score space, without vectors and without the compiler."""
